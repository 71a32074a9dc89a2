// SPDX-License-Identifier: Apache-2.0
#pragma once
// One instance of role 0: its device, its memory and its lanes. Internal to exec.
#include <functional>
#include <memory>
#include <vector>

#include "exec/run/run.h"

namespace tandem::exec {
class Queues;
}

namespace tandem::exec {

class Worker {
 public:
  Worker(Run& run, uint32_t instance);
  ~Worker();

  /// Needs a thread of its own: every lane in use; of an asynchronous device those whose ops the host takes
  /// part in (messages with a store, collectives over links), and the compute lane's thread issues all
  /// others.
  bool needs_thread(Lane lane) const;
  /// DeviceSession, memory and prepared calls; in the thread that will run the compute lane.
  void open();
  /// Walks the ops of all iterations that this lane's thread sees to. Throws what an op throws, and Stopped.
  void run(Lane lane);

  /// After a failed run: until the device does nothing more, in which others' memory may take part.
  void drain() noexcept;

  /// Batches in memory at once: one is loaded when the forward pass of two iterations before has begun
  /// (Training::forward), whose backward pass still reads its own.
  static constexpr int64_t kBatches = 3;
  static constexpr uint32_t kNoOp = UINT32_MAX;
  struct Executed {
    uint32_t iteration;
    uint32_t op;         ///< kNoOp: only the iteration's end on this lane was timed
    int64_t start, end;  ///< ns; without waiting for dependencies; a collective starts with its last member
    int64_t ready;  ///< when its lane and its dependencies let it start; of a device's own queues `start`
  };
  const std::vector<Executed>& executed(Lane lane) const {
    return lanes_[static_cast<std::size_t>(lane)].executed;
  }
  const std::vector<double>& losses() const { return losses_; }
  const std::vector<CallTime>& calls() const { return calls_; }
  /// Seconds that the device's library expected of a collective, asked with Keep::calls; 0: it did not say.
  double estimate(uint32_t op) const { return estimates_[op]; }
  /// Bytes that an op hands to its collective or sends, in an iteration; 0: it does neither.
  int64_t bytes(uint32_t op) const { return bytes_[op]; }
  /// From the device's memory, after the run.
  std::vector<float> parameters() const { return read(parameters_, run_.network.parameters()); }
  std::vector<float> state() const;
  std::vector<float> values(TensorId tensor) const;

 private:
  struct Dependency {
    Lane lane;
    uint32_t position, lane_ops, op;
    uint16_t lag, every;
  };
  struct Bound {
    uint32_t op = 0;
    std::vector<Dependency> deps;
    std::function<int64_t(int32_t iteration)> act;  ///< returns when its work began, or 0 for at once
  };
  struct LaneState {
    std::vector<Bound> ops;
    bool pushes = false;      ///< it sends to a store
    int32_t ahead = 0;        ///< iterations that it may load input for before others begin them
    bool exchanges = false;   ///< messages with a store, or over links: ops that the host takes part in
    float* staged = nullptr;  ///< host memory for collectives of an asynchronous device over links
    int64_t staged_elements = 0;
    Counter passed;  ///< ops that ended or do not exist in their iteration
    std::vector<Executed> executed;
  };
  struct Launch {
    uint32_t prepared = 0;
    std::vector<std::vector<float*>> operands;  ///< [variant of the input's buffer], or one for all
    std::size_t time = 0;                       ///< index into calls_
  };

  friend class Queues;
  const Role& role() const { return run_.program.roles[0]; }
  LaneState& lane(Lane lane) { return lanes_[static_cast<std::size_t>(lane)]; }
  const LaneState& lane(Lane lane) const { return lanes_[static_cast<std::size_t>(lane)]; }
  float* tensor(TensorId t, int64_t variant = 0) const;
  float* state_memory() const { return parameters_ + run_.network.parameters(); }
  std::vector<float> read(const float* from, int64_t elements) const;
  void run_lane(Lane lane);
  void join_groups();
  void bind();
  std::function<int64_t(int32_t)> action(uint32_t index);
  std::function<int64_t(int32_t)> compute(uint32_t index);
  std::function<int64_t(int32_t)> layers(uint32_t index);
  std::function<int64_t(int32_t)> collective(uint32_t index);
  void narrow_share(uint32_t key, float* words, int64_t each, Lane lane);
  void widen_shares(uint32_t key, const float* words, int64_t each, Lane lane);
  int64_t over_links(GroupCollective& group, uint32_t rank, float* buffer, int64_t elements, Lane on);
  std::function<int64_t(int32_t)> send(uint32_t index);
  std::function<int64_t(int32_t)> receive(const Op& op);
  std::function<int64_t(int32_t)> input(const Op& op);
  void prepare(const std::vector<Call>& calls, std::vector<std::vector<Launch>>& to);
  void launch(const std::vector<Launch>& list, std::size_t variant, const IterationState& state);
  void integers(uint32_t first_layer, uint32_t layers, int32_t iteration);
  void add_up(int64_t begin, int64_t end, int32_t iteration, Lane lane);
  void fill_batch(int64_t batch, float* host) const;
  int64_t act(const Bound& op, int32_t iteration);
  void wait(const Bound& op, int32_t iteration);

  Run& run_;
  uint32_t instance_;
  std::array<LaneState, kLanes> lanes_;
  std::unique_ptr<DeviceSession> device_;
  float *inputs_ = nullptr, *arena_ = nullptr, *parameters_ = nullptr, *gradients_ = nullptr,
        *sums_ = nullptr, *outputs_ = nullptr, *narrowed_ = nullptr;
  int64_t variants_ = 1;  ///< copies of the input's buffer: of several iterations when loaded ahead
  std::vector<std::vector<Launch>> forward_, backward_;  ///< [layer]
  std::vector<std::pair<int64_t, int64_t>> flat_;        ///< [layer]: its range of the flat vector
  std::vector<Counter> pushed_;                          ///< [key]: iterations
  std::vector<Counter> replied_;  ///< [key]: slices, of shards that are not behind links
  std::vector<double> losses_;
  std::vector<CallTime> calls_;
  std::vector<std::function<void()>> asks_;  ///< one an op that the device's library does
  std::vector<double> estimates_;            ///< [op]
  std::vector<int64_t> bytes_;               ///< [op]
  std::unique_ptr<Queues> queues_;           ///< of an asynchronous device
  float* losses_now_ = nullptr;              ///< there: of the iteration under way
  float *host_gradients_ = nullptr, *host_parameters_ = nullptr;  ///< there: on the way to and from a store
};

}  // namespace tandem::exec
