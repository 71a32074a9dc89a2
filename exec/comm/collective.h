// SPDX-License-Identifier: Apache-2.0
#pragma once
// Collectives among worker threads of one process: the schedules of schemes/collectives, step by step. What
// crosses nodes goes over a Transport, all else through shared memory.
#include <memory>
#include <string>
#include <vector>

#include "exec/comm/sync.h"
#include "exec/comm/transport.h"
#include "exec/device/backend.h"
#include "schemes/collectives/collectives.h"

namespace tandem::exec {

/// Where a group's ranks sit, when that is more than one node.
struct GroupNodes {
  exec::Transport* transport = nullptr;
  uint32_t channel = 0;            ///< of the transport; this group's alone
  std::vector<uint32_t> of_ranks;  ///< node of each rank
};

/// The steps of a group's collectives, by executed_algorithm(). Throws InputError as that does, and for
/// all-to-all.
Schedule collective_schedule(CollKind kind, const std::string& algorithm, const GroupShape& group,
                             bool between_nodes);
/// Where chunk `c` of `chunks` begins in `elements`: they differ by at most one element, larger first.
int64_t chunk_begin(int64_t elements, uint32_t chunks, uint32_t c);

/// One group's collectives of one kind and algorithm. Every member calls run() from its comm lane, in the
/// same order; calls of one group must not overlap (lanes are in order, so they do not).
class GroupCollective {
 public:
  /// `local`: consecutive ranks that share a node. Throws as collective_schedule(); connects the nodes that
  /// exchange.
  GroupCollective(CollKind kind, const std::string& algorithm, uint32_t ranks, uint32_t local, Abort& abort,
                  int spins, const GroupNodes& nodes = {});
  ~GroupCollective();  ///< after a failed run also stops the transport, which may still write to posted
                       ///< receives

  /// In place on `elements` floats of this rank, the same number for all. Sums are made in the schedule's
  /// order, so the result depends on no timing. Returns when the last member had arrived (now_ns()). Throws
  /// Stopped; then others may still use the buffer until all members have returned and the transport is
  /// stopped. With an asynchronous `device` (of all members, without a transport) it is only enqueued on the
  /// lane: then lanes wait for each other on the devices, and what is returned is the members' arrival at the
  /// call. With bf16 or fp16 as `format` an element is two numbers of that.
  int64_t run(uint32_t rank, float* buffer, int64_t elements, DeviceSession* device = nullptr,
              Lane lane = Lane::comm, Precision format = Precision::fp32);
  uint32_t ranks() const { return static_cast<uint32_t>(members_.size()); }

 private:
  struct Pull {  ///< what a rank takes in one step
    uint32_t from;
    uint32_t offset, count;  ///< in chunks
    bool reduce;
    bool direct = false;  ///< over the transport into place, or added in place, as it arrives
    exec::Transport::Receive* remote = nullptr;  ///< null: from shared memory
    std::size_t scratch = 0;                     ///< remote and a sum, or not direct: in Member::scratch
  };
  struct Push {  ///< what it sends to another node
    uint32_t to;
    uint32_t offset, count;
  };
  struct RankStep {
    std::vector<Pull> pulls;
    std::vector<Push> pushes;
    std::vector<uint32_t> gives;  ///< in whose memory what is taken goes as well
    std::vector<uint32_t> waits;  ///< ranks of this node that must have finished the step before
    bool staged = false;  ///< what is taken in overlaps what others take from here: it goes to `stage` and
                          ///< in place in the next step
  };
  struct alignas(64) Member {
    Counter done;  ///< steps finished, counted over all runs; arriving counts as one
    uint32_t rank = 0;
    float* buffer = nullptr;
    int64_t arrived[2] = {0, 0};  ///< of this and the last run, alternating
    uint32_t runs = 0;
    std::vector<RankStep> steps;
    DeviceSession* device = nullptr;  ///< asynchronous: works on `buffer`
    Lane lane = Lane::comm;
    Precision format = Precision::fp32;  ///< in two numbers of which an element is, where that is of 2 bytes
    bool half() const { return element_bytes(format) == 2; }
    std::vector<std::unique_ptr<DeviceEvent>> events;  ///< next to `done`: of two runs, alternating
    float* stage = nullptr;
    int64_t stage_elements = 0;
    std::vector<float> stage_memory;          ///< where `stage` lies without a device
    std::vector<std::vector<float>> scratch;  ///< sums wait here for their turn
    std::vector<std::unique_ptr<exec::Transport::Receive>> receives;
  };
  struct Range {
    int64_t begin, count;  ///< elements
  };
  Range range(uint32_t offset, uint32_t count, int64_t elements) const;
  void reached(Member& me, uint32_t value, uint32_t turn, uint32_t step);
  void wait_for(Member& me, uint32_t other, uint32_t value, uint32_t turn, uint32_t step);
  /// Does it need no scratch? Links add floats alone.
  static bool direct(const Member& me, const Pull& p) { return p.direct && !(p.reduce && me.half()); }
  static void put(Member& me, float* to, const float* from, int64_t elements);
  static void grow_stage(Member& me, int64_t elements);
  bool apart(uint32_t a, uint32_t b) const;
  bool here(uint32_t rank) const {
    return nodes_.transport == nullptr || nodes_.transport->here(nodes_.of_ranks[rank]);
  }
  void plan(const Schedule& schedule);
  bool plan_step(const Step& step, std::vector<std::vector<uint32_t>>& readers);
  void plan_messages(Member& to, RankStep& step);
  void post(Member& me, RankStep& step, int64_t elements);
  void push(Member& me, const RankStep& step, int64_t elements);
  void pull(Member& me, const RankStep& step, int64_t elements);
  void take(Member& me, const RankStep& step, const Pull& pull, const float* from, Range piece);
  void place(Member& me, const RankStep& step, int64_t elements);

  uint32_t chunks_ = 1;
  std::vector<std::unique_ptr<Member>> members_;
  Abort& abort_;
  int spins_;
  GroupNodes nodes_;
};

}  // namespace tandem::exec
