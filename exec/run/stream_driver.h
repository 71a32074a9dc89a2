// SPDX-License-Identifier: Apache-2.0
#pragma once
// Drives the lanes of an asynchronous device: one thread issues them all in program order, lanes wait for
// each other on the device, and the host only follows. Internal to exec.
#include <array>
#include <memory>
#include <vector>

#include "exec/run/device_clock.h"
#include "exec/run/lane_driver.h"
#include "exec/run/loss_history.h"

namespace tandem::exec {

/// Whether the iterations of this run can be captured once and replayed. Not if the host takes part in them
/// (stores, loaded input, collectives among workers), if iterations differ (Op::every), or if one depends on
/// another across lanes (Dep::lag), which replaying would serialise. Any thread may ask.
bool replayable(const Run& run, uint32_t instance);

/// The compute lane's thread issues every lane whose ops do not involve the host; run() of the other lanes
/// (exchanges) drives them in separate threads and waits for the device where it must. Threads as LaneDriver
/// says; staging(input) is called by the compute lane's thread if the copy lane is issued here.
class StreamDriver : public LaneDriver {
 public:
  explicit StreamDriver(const Setup& setup);
  ~StreamDriver() override;

  void run(Lane lane) override;
  void needs_state(int32_t lag) override;
  float* host_memory(float* at, int64_t elements) override;
  void reserve_collective(Lane lane, int64_t elements) override;
  /// With Keep::calls each launch is timed: in some of the replays, where the device never waits for the host
  /// and is as warm as in others; without replays in the sampled iterations.
  void launch(const std::vector<Launch>& list, std::size_t variant, const IterationState& state) override;
  void take_losses(const std::vector<float*>& at) override;
  void reserve_staging(Staging kind, int64_t elements) override;
  float* staging(Staging kind, int32_t iteration, float* at) override;
  float* collective_memory(Lane lane, float* at) override;
  DeviceSession* peer_copies() override { return run_.has_transport() ? nullptr : &device_; }

 protected:
  void wait(const LaneOp& op, int32_t iteration) override;

 private:
  /// Iterations by which the host may be ahead: enough that the device never waits for it.
  static constexpr int32_t kAhead = 2;
  /// With Keep::calls one replay in this many is observed: the times of the previous one have been read by
  /// the time it is issued.
  static constexpr int32_t kObserved = kAhead + 1;

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
  };
  struct Spans {
    std::vector<Span> list;
    std::size_t used = 0;
  };
  struct Slot {  ///< of the iterations in flight, reused cyclically
    std::unique_ptr<DeviceEvent> ends[kLanes];
    bool sampled = false, observed = false, ended[kLanes] = {};
    Spans ops, calls;
  };
  struct HostMemory {
    float* at = nullptr;
    int64_t elements = 0;
  };

  bool mine(Lane lane) const { return !lanes_[lane].exchanges; }
  /// It is issued here, in addition to the compute lane, and has something to do.
  bool beside(Lane lane) const { return lane != Lane::compute && mine(lane) && !lanes_[lane].ops.empty(); }
  void plan_steps();
  void make_events(int32_t longest_lag);
  void warm_up();
  void measure_empty_launch();
  /// How to issue the iteration.
  Issued way(int32_t iteration) const;
  Slot& slot(int32_t iteration) { return slots_[static_cast<std::size_t>(iteration % (kAhead + 1))]; }
  DeviceEvent& done(uint32_t op, int32_t iteration);
  void issue_all();
  void issue(int32_t iteration);
  void give_states(int32_t iteration);
  void replay(int32_t iteration, std::unique_ptr<DeviceGraph>& graph);
  void walk_steps(int32_t iteration, bool capturing);
  void issue_op(const Step& step, int32_t iteration);
  void device_wait(const Step& step, int32_t iteration);
  void fork();
  void join();
  void follow(DeviceEvent& event);
  void harvest(int32_t iteration);
  void collect_ops(const Slot& slot, int32_t iteration);
  void collect_calls(const Spans& calls);
  Span& open_span(Spans& spans, std::size_t what, Lane lane);

  int32_t ring_ = 1;
  std::vector<Step> steps_;
  std::vector<std::size_t> step_of_;  ///< [op]
  std::vector<Slot> slots_;
  Slot* now_ = nullptr;  ///< of the iteration being issued
  std::unique_ptr<DeviceEvent> fork_, joins_[kLanes];
  DeviceClock clock_;
  double empty_launch_ = 0;                     ///< seconds between the two events around an empty kernel
  std::vector<int32_t> lags_;                   ///< whose states are needed
  std::array<std::vector<float*>, 2> staging_;  ///< [kind]: one for each iteration in flight
  std::array<HostMemory, kLanes> collective_;
  LossHistory history_;
  std::unique_ptr<DeviceGraph> graph_, observed_graph_;
  Spans observed_;  ///< of the calls in observed_graph_
  uint32_t captures_ = 0;
  bool replays_ = false, forks_ = false;
};

/// The kind that the run's backend takes.
std::unique_ptr<LaneDriver> make_lane_driver(const LaneDriver::Setup& setup);

}  // namespace tandem::exec
