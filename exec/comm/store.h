// SPDX-License-Identifier: Apache-2.0
#pragma once
// The versioned parameters of a parameter server (semantics.md 4). No thread of its own: whoever brings a
// message runs its ops: push(), leave() and, in a Merge, at() by any thread, the rest outside the run.
#include <functional>
#include <memory>
#include <vector>

#include "base/histogram.h"
#include "exec/comm/sync.h"
#include "exec/device/backend.h"
#include "schemes/program/program.h"

namespace tandem::exec {

/// What a message carries: a slice of one part of the flat vector.
struct Slice {
  int64_t first = 0, elements = 0;  ///< in the flat vector
  uint32_t shard = 0;               ///< that holds it
};

/// Merges `gradient` into the parameters of the slice: one optimiser step, the `version`-th. `staleness`: of
/// the last gradient in it.
using Merge =
    std::function<void(const Slice& slice, const float* gradient, int64_t version, int64_t staleness)>;

/// Where stores have no lock: makes of the parameters `moved` of the slice those after the worker's
/// `number`-th step, from 1, by `gradient` and its own state. Several workers' at a time.
using Step = std::function<void(uint32_t worker, const Slice& slice, const float* gradient, float* moved,
                                int64_t number, int64_t staleness)>;

class ParameterStore {
 public:
  struct Setup {
    Store rules;
    int64_t workers = 1;  ///< that push, a multiple of rules.shares; clocks are kept per worker
    uint32_t shards = 1, keys = 1;
    const float* start = nullptr;  ///< flat parameters at the start
    int64_t elements = 0;
    bool gated = false;
    Merge merge;  ///< works on what at() points to
    /// What a gradient of such a staleness is multiplied by before it is added to others of its version,
    /// where several make one; empty: 1.
    std::function<float(int64_t staleness)> weight = {};
    /// [shard]: the asynchronous device that keeps it, with lanes that nobody else uses; empty: this
    /// process's memory. Each holds a flat vector of which it uses its slices. Gradients and replies are then
    /// in memory that the device's copy() reaches.
    std::vector<DeviceSession*> devices;
    /// Makes the gradient of what a worker pushed of a slice; empty: that is the gradient. For many threads.
    std::function<void(const Slice& slice, const float* message, float* gradient)> unpack = {};
    Step step = {};  ///< instead of `merge` where rules.locked is false
    /// Of what each worker pushes of a key that many first gradients, whose staleness does not count: all
    /// begin at once, and so find fewer versions of each other's than ever after.
    int64_t run_in = 0;
  };
  ParameterStore(Setup setup, Abort& abort, int spins);
  ~ParameterStore();

  /// In this process's memory: what is on devices, as it was when fetched.
  float* parameters() { return parameters_.data(); }
  const float* parameters() const { return parameters_.data(); }
  bool on_devices() const { return !homes_.empty(); }
  /// Where the slice's parameters are kept.
  float* at(const Slice& slice);
  /// From a device into parameters(), when nobody pushes any more.
  void fetch(const Slice& slice);

  /// One gradient of the worker's share of `key` for `shard`, applied in order of arrival; `slice` is the
  /// same for all workers of the share, `gradient` may change afterwards. The reply's snapshot is taken as
  /// soon as the gate lets the worker pass, at once where there is none: `ready` is called then, by whoever
  /// opened the gate, which may be this call. It must not call the store. Without a `reply` none is taken.
  void push(uint32_t shard, uint32_t key, uint32_t worker, const Slice& slice, const float* gradient,
            float* reply, std::function<void()> ready);

  /// Store::reader: the snapshot that a worker asks for by itself.
  void pull(uint32_t shard, uint32_t key, uint32_t worker, const Slice& slice, float* reply);

  // ---- Store::own_models: the shard of a worker's number is its model ----

  /// A copy of it.
  void read(uint32_t worker, uint32_t key, const Slice& slice, float* to);
  /// Adds what an average with another has moved it by since it was read(): a version, and the worker's next
  /// update is of a gradient that is as stale as there were versions since the last time.
  void join(uint32_t worker, uint32_t key, const Slice& slice, const float* read, const float* mean);
  /// Nobody else reaches the slice, which `act` may write, meanwhile.
  void change(uint32_t worker, uint32_t key, const Slice& slice, const std::function<void(float*)>& act);

  /// The worker has sent its last gradient to the shard: it holds nobody back there any more
  /// (semantics.md 4.4).
  void leave(uint32_t worker, uint32_t shard);

  int64_t versions() const;  ///< summed over shards, keys and shares
  int64_t dropped() const;
  int64_t merged() const;       ///< gradients kept
  Histogram staleness() const;  ///< without the run-in
  Histogram staleness_of(uint32_t worker) const;

 private:
  struct Entry;
  struct Home;
  void count(Entry& e, std::size_t worker, int64_t staleness) const;
  std::size_t place(uint32_t worker) const { return worker / static_cast<std::size_t>(setup_.rules.shares); }
  float* sum_at(const Slice& slice);
  void take(const Slice& slice, const float* gradient, bool adds, float weight);
  void scale_sum(const Slice& slice, float factor);
  void accept(Entry& e, uint32_t worker, const Slice& slice, const float* gradient);
  Entry& entry(uint32_t shard, uint32_t key, uint32_t worker);
  void apply(Entry& e, uint32_t worker, const Slice& slice, const float* gradient);
  void add_beside(Entry& e, uint32_t worker, const Slice& slice, const float* gradient, float* reply);
  bool open(const Entry& e, uint32_t worker) const;
  void unlock(Entry& e);
  void snapshot(Entry& e, uint32_t worker, const Slice& slice, float* reply);

  Setup setup_;
  Abort& abort_;
  int spins_;
  std::vector<float> parameters_, sums_;
  std::vector<std::vector<float>> read_, moved_;  ///< [worker], without a lock: what it read, after its step
  std::vector<std::unique_ptr<Entry>> entries_;
  std::vector<std::unique_ptr<Home>> homes_;  ///< [shard]
};

}  // namespace tandem::exec
