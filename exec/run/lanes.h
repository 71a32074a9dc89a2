// SPDX-License-Identifier: Apache-2.0
#pragma once
// A worker's lanes: the ops bound to each in order, the progress of each, and the recorded times. Internal to
// exec.
//
// Built by one thread before the run. During it `ops` are only read, any thread may wait for `passed`, and a
// lane's `passed` and `executed` are written by the one thread that drives it (lane_driver.h); others read
// `executed` after the run.
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "exec/comm/sync.h"
#include "exec/run/run.h"
#include "schemes/program/program.h"

namespace tandem::exec {

inline constexpr uint32_t kNoOp = UINT32_MAX;

/// One execution of an op.
struct Executed {
  uint32_t iteration;
  uint32_t op;         ///< kNoOp: only the iteration's end on this lane was timed
  int64_t start, end;  ///< ns; without waiting for dependencies; a collective starts with its last member
  int64_t ready;       ///< when its lane and its dependencies let it start; on a device's own queues `start`
};

/// In which iterations of a run an op exists (semantics.md 1.4).
struct Turns {
  uint16_t every = 1;
  int64_t from = 0, until = INT64_MAX;
  bool at(int32_t iteration) const {
    return (iteration + 1) % every == 0 && iteration >= from && iteration < until;
  }
};

/// An op of another lane that this op waits for.
struct LaneDependency {
  Lane lane;
  uint32_t op;        ///< index into Role::ops
  uint32_t position;  ///< its position among the `lane_ops` of its lane
  uint32_t lane_ops;
  uint16_t lag;
  Turns turns;
  /// The iteration that is waited for by an op of `iteration`; none if it does not exist (semantics.md 1.3,
  /// 1.4).
  std::optional<int32_t> of(int32_t iteration) const {
    const int32_t of = iteration - lag;
    if (of < 0 || !turns.at(of)) return std::nullopt;
    return of;
  }
  /// Value of LaneState::passed once it has ended in iteration `of`.
  uint32_t passed_by(int32_t of) const { return static_cast<uint32_t>(of) * lane_ops + position + 1; }
};

struct LaneOp {
  uint32_t op = 0;  ///< index into Role::ops
  Turns turns;
  std::vector<LaneDependency> deps;
  std::function<int64_t(int32_t iteration)> act;  ///< returns when its work began, or 0 for immediately
  /// For flat gradients summed when the coordinator decides (Coordinator::decides); empty: `act` is the op.
  Slice gradients = {};
  bool runs(int32_t iteration) const { return turns.at(iteration); }
};

struct LaneState {
  std::vector<LaneOp> ops;
  bool pushes = false;     ///< it sends to a store
  bool exchanges = false;  ///< the host takes part in some op: messages, tokens of experts, collectives over
                           ///< links, updates of offloaded state
  int32_t ahead = 0;       ///< iterations by which it may load input in advance
  Counter passed;          ///< ops that have ended, or do not exist in their iteration
  std::vector<Executed> executed;
  /// Sums gradients of several ops, by the group of the first op's collective. Like `act`; set by the worker.
  std::function<int64_t(const LaneOp& first, Slice gradients, int32_t iteration)> sum;
  int64_t sums = 0;  ///< number of ops summed
  /// `passed` when all iterations before `iteration` are done.
  uint32_t passed_before(int32_t iteration) const {
    return static_cast<uint32_t>(iteration) * static_cast<uint32_t>(ops.size());
  }
};

/// Of one worker. The worker (Worker::open) sets LaneOp::act.
class Lanes {
 public:
  /// The run's Abort watches its counters, so it must outlive all waiting.
  Lanes(Run& run, uint32_t instance);
  LaneState& operator[](Lane lane) { return lanes_[static_cast<std::size_t>(lane)]; }
  const LaneState& operator[](Lane lane) const { return lanes_[static_cast<std::size_t>(lane)]; }
  /// No two lanes ever work at the same time (schemes::one_after_another), nor need separate threads: for
  /// cores that only communicate, or for a coordinator's rounds.
  bool one_after_another() const { return one_after_another_; }
  /// The op of the role, bound to its lane.
  const LaneOp& bound(uint32_t op) const { return (*this)[role_.ops[op].lane].ops[position_[op]]; }

 private:
  void add_ops(const Run& run);
  void add_dependencies();
  void depend(uint32_t op, uint32_t on, uint16_t lag);
  Turns turns(const Op& op) const;
  void share_slots(const Slots& slots);
  void keep_gradients(const Program& program, const ExecutionGraph& lowered);
  void load_ahead(const RunPlan& plan);

  const Role& role_;
  int64_t before_;  ///< iterations before the checkpoint
  std::array<LaneState, kLanes> lanes_;
  std::vector<uint32_t> position_;  ///< [op]: in its lane
  bool one_after_another_ = false;
};

}  // namespace tandem::exec
