// SPDX-License-Identifier: Apache-2.0
#pragma once
// How the lanes of an asynchronous device are driven: one thread issues them all in program order, lanes wait
// for each other on the device, the host only follows from afar. Internal to exec.
#include <memory>
#include <span>
#include <vector>

#include "exec/run/worker.h"

namespace tandem::exec {

/// Can the iterations of this run be captured once and replayed? Not where the host takes part in them
/// (stores, loaded input, collectives that workers make among themselves), where iterations differ
/// (Op::every), or where one leans on another across lanes (Dep::lag), which replaying would serialise.
bool replayable(const Run& run);

class Queues {
 public:
  /// After the worker's memory and before its ops are bound.
  explicit Queues(Worker& worker);
  ~Queues();

  /// Walks all iterations; in the compute lane's thread. Lanes that exchange messages with a store have
  /// threads of their own (Worker::run_lane).
  void run();
  /// The host waits for op `d` of iteration `of`, which was issued.
  void wait(uint32_t op, int32_t of);
  /// Times one launch on the compute lane, into calls()[time], where this iteration is sampled.
  void launch(std::size_t time, uint32_t prepared, std::span<float* const> operands,
              const IterationState& state);
  /// Host memory for `elements` that stays as it is until the iteration has been run; one piece a kind.
  enum class Staging : uint8_t { input, integers };
  float* staging(Staging kind, int32_t iteration, int64_t elements);
  /// The update of this op works with the state of `lag` iterations ago. Throws InputError beyond the slots.
  void needs_state(int32_t lag);

 private:
  /// Iterations that the host may be ahead of the device: enough that the device never waits for it.
  static constexpr int32_t kAhead = 2;

  struct Dependency {
    std::size_t step;  ///< index into steps_, or kHost
    uint32_t index;    ///< into the bound op's deps
  };
  struct Step {  ///< one op that this thread issues
    uint32_t op = 0;
    Lane lane = Lane::compute;
    std::size_t bound = 0;                           ///< index into its lane's ops
    bool awaited = false;                            ///< some op of another lane depends on it
    std::vector<std::unique_ptr<DeviceEvent>> done;  ///< [iteration % ring_], when awaited
  };
  struct Span {  ///< of an op or a call, timed by two events
    std::size_t what = 0;
    Lane lane = Lane::compute;
    std::unique_ptr<DeviceEvent> begin, end;
    int64_t start_ns = 0, end_ns = 0;
  };
  struct Spans {
    std::vector<Span> list;
    std::size_t used = 0;
  };
  struct Slot {  ///< of the iterations under way, in turn
    std::unique_ptr<DeviceEvent> ends[kLanes];
    bool sampled = false, ended[kLanes] = {};
    Spans ops, calls;
  };

  bool mine(Lane lane) const;
  void set_clock();
  bool sampled(int32_t iteration) const;
  Slot& slot(int32_t iteration) { return slots_[static_cast<std::size_t>(iteration % (kAhead + 1))]; }
  void issue(int32_t iteration);
  void walk(int32_t iteration, bool capturing);
  void issue_op(Step& step, int32_t iteration);
  void device_wait(const Step& step, int32_t iteration);
  void fork();
  void join();
  void harvest(int32_t iteration);
  void collect(Slot& slot, int32_t iteration);
  int64_t ns(DeviceEvent& event);
  Span& open_span(Spans& spans, std::size_t what, Lane lane);

  Worker& w_;
  Run& run_;
  DeviceSession& device_;
  int32_t ring_ = 1, stride_ = 1;
  std::vector<Step> steps_;
  std::vector<std::size_t> step_of_;  ///< [op]
  std::vector<Slot> slots_;
  Slot* now_ = nullptr;  ///< of the iteration being issued
  std::unique_ptr<DeviceEvent> base_, fork_, joins_[kLanes];
  int64_t base_ns_ = 0;
  std::vector<int32_t> lags_;  ///< whose states are needed
  std::vector<std::vector<float*>> staging_;
  float* history_ = nullptr;  ///< losses of all iterations, on the device
  std::unique_ptr<DeviceGraph> graph_;
  bool replays_ = false, forks_ = false;
};

}  // namespace tandem::exec
