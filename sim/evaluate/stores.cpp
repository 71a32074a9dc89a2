// SPDX-License-Identifier: Apache-2.0
#include "sim/evaluate/stores.h"

#include <algorithm>

namespace tandem::sim {

VersionedStore::VersionedStore(const Store& store, uint32_t shards, uint32_t keys, uint32_t workers)
    : store_(store),
      shards_(shards),
      keys_(keys),
      shares_(static_cast<uint32_t>(store.shares)),
      workers_(workers / shares_),
      entries_(std::size_t{shards} * keys * shares_) {
  if (!store.drop_late) return;
  for (Entry& entry : entries_) entry.clock.assign(workers_, 0);
}

void VersionedStore::merge(uint32_t shard, uint32_t key, uint32_t worker) {
  Entry& entry = at(shard, key, worker);
  if (++entry.merged < static_cast<uint32_t>(store_.batch)) return;
  entry.merged = 0;
  ++entry.version;
}

VersionedStore::Level& VersionedStore::level(Entry& entry, uint32_t value) {
  const std::size_t i = value - entry.base;
  if (i >= entry.levels.size()) entry.levels.resize(i + 1);
  return entry.levels[i];
}

/// Does the quorum have this clock, given how many workers reached it? Those that finished below it count
/// too.
bool VersionedStore::met(const Entry& entry, uint32_t value, uint32_t reached) const {
  const auto gone =
      std::count_if(entry.left.begin(), entry.left.end(), [&](uint32_t c) { return c < value; });
  return reached + static_cast<uint32_t>(gone) >= static_cast<uint32_t>(store_.quorum);
}

void VersionedStore::leave(uint32_t shard, uint32_t key, uint32_t worker, uint32_t sent,
                           std::vector<uint32_t>& released) {
  Entry& entry = at(shard, key, worker);
  entry.left.push_back(store_.drop_late ? entry.clock[worker / shares_] : sent);
  for (std::size_t i = 0; i < entry.levels.size(); ++i) {
    Level& l = entry.levels[i];
    if (l.parked.empty() || !met(entry, entry.base + static_cast<uint32_t>(i), l.reached)) continue;
    released.insert(released.end(), l.parked.begin(), l.parked.end());
    l.parked.clear();
  }
}

void VersionedStore::reach(Entry& entry, uint32_t value, std::vector<uint32_t>& released) const {
  Level& l = level(entry, value);
  ++l.reached;
  if (!l.parked.empty() && met(entry, value, l.reached)) {
    released.insert(released.end(), l.parked.begin(), l.parked.end());
    l.parked.clear();
  }
  std::size_t passed = 0;
  while (passed < entry.levels.size() && entry.levels[passed].reached == workers_) ++passed;
  entry.levels.erase(entry.levels.begin(), entry.levels.begin() + static_cast<std::ptrdiff_t>(passed));
  entry.base += static_cast<uint32_t>(passed);
}

uint32_t VersionedStore::handled(uint32_t shard, uint32_t key, uint32_t worker, uint32_t number,
                                 uint32_t read, std::vector<uint32_t>& released) {
  Entry& entry = at(shard, key, worker);
  if (!store_.drop_late) {
    reach(entry, number, released);
    return number;
  }
  uint32_t& clock = entry.clock[worker / shares_];
  const uint32_t to = std::max(clock, read + 1);
  while (clock < to) reach(entry, ++clock, released);
  return to;
}

bool VersionedStore::open(uint32_t shard, uint32_t key, uint32_t worker, uint32_t clock) const {
  const Entry& entry = at(shard, key, worker);
  const int64_t value = int64_t{clock} - store_.slack;
  if (value < int64_t{entry.base}) return true;
  const auto i = static_cast<std::size_t>(value - int64_t{entry.base});
  return met(entry, static_cast<uint32_t>(value), i < entry.levels.size() ? entry.levels[i].reached : 0);
}

void VersionedStore::park(uint32_t shard, uint32_t key, uint32_t worker, uint32_t clock, uint32_t message) {
  Level& l = level(at(shard, key, worker), clock - static_cast<uint32_t>(store_.slack));
  l.parked.push_back(message);
}

int64_t VersionedStore::versions() const {
  int64_t sum = 0;
  for (const Entry& entry : entries_) sum += entry.version;
  return sum;
}

}  // namespace tandem::sim
