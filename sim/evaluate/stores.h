// SPDX-License-Identifier: Apache-2.0
#pragma once
// Versioned parameters and the clocks of gates (schemes/semantics.md, entry 4).
#include <cstdint>
#include <vector>

#include "schemes/program/program.h"

namespace tandem::sim {

/// All (shard, key, share) of one Store; a worker sees its own share alone. Clocks are kept as counts per
/// value, so a gate costs O(1); memory is O(shards x keys x shares x spread of clocks), and with drop_late
/// O(shards x keys x workers).
/// For one thread at a time.
class VersionedStore {
 public:
  /// `shards`: that have each key; 1 where it has one owner, whichever shard that is.
  VersionedStore(const Store& store, uint32_t shards, uint32_t keys, uint32_t workers);

  uint32_t version(uint32_t shard, uint32_t key, uint32_t worker) const {
    return at(shard, key, worker).version;
  }
  /// Whether a gradient computed on version `read` is to be dropped now.
  bool late(uint32_t shard, uint32_t key, uint32_t worker, uint32_t read) const {
    return store_.drop_late && read < at(shard, key, worker).version;
  }
  /// Merges one gradient: every `batch`-th raises the version.
  void merge(uint32_t shard, uint32_t key, uint32_t worker);
  /// The worker's gradient was handled (merged or dropped): it is the `number`-th of its (worker, key), from
  /// 1, computed on version `read`. Returns the worker's clock. Appends to `released` the messages parked at
  /// gates that open by it, in the order they were parked.
  uint32_t handled(uint32_t shard, uint32_t key, uint32_t worker, uint32_t number, uint32_t read,
                   std::vector<uint32_t>& released);
  /// The worker will send no more of that key, of which `sent` were handled: it holds nobody back any more.
  /// Appends to `released` as above.
  void leave(uint32_t shard, uint32_t key, uint32_t worker, uint32_t sent, std::vector<uint32_t>& released);
  /// Whether the gate is open for a worker of this clock.
  bool open(uint32_t shard, uint32_t key, uint32_t worker, uint32_t clock) const;
  /// Keeps `message` until the gate opens for `clock`. Requires !open().
  void park(uint32_t shard, uint32_t key, uint32_t worker, uint32_t clock, uint32_t message);
  int64_t versions() const;  ///< summed over all shards, keys and shares

 private:
  struct Level {
    uint32_t reached = 0;          ///< workers with a clock of at least this value
    std::vector<uint32_t> parked;  ///< messages that wait for quorum on this value
  };
  struct Entry {
    uint32_t version = 0, merged = 0;
    uint32_t base = 1;  ///< value of levels[0]; all workers have passed every value below
    std::vector<Level> levels;
    std::vector<uint32_t> clock;  ///< [worker / shares], with drop_late only
    std::vector<uint32_t> left;   ///< last clocks of workers that have finished
  };
  std::size_t index(uint32_t shard, uint32_t key, uint32_t worker) const {
    return ((shards_ == 1 ? 0 : std::size_t{shard}) * keys_ + key) * shares_ + worker % shares_;
  }
  const Entry& at(uint32_t shard, uint32_t key, uint32_t worker) const {
    return entries_[index(shard, key, worker)];
  }
  Entry& at(uint32_t shard, uint32_t key, uint32_t worker) { return entries_[index(shard, key, worker)]; }
  void reach(Entry& entry, uint32_t value, std::vector<uint32_t>& released) const;
  bool met(const Entry& entry, uint32_t value, uint32_t reached) const;
  static Level& level(Entry& entry, uint32_t value);

  Store store_;
  uint32_t shards_, keys_, shares_;
  uint32_t workers_;  ///< of one share
  std::vector<Entry> entries_;
};

}  // namespace tandem::sim
