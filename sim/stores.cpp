// SPDX-License-Identifier: Apache-2.0
#include "sim/stores.h"

#include <algorithm>

namespace tandem::sim {

VersionedStore::VersionedStore(const Store& store, uint32_t shards, uint32_t keys, uint32_t workers)
    : store_(store),
      keys_(keys),
      shares_(static_cast<uint32_t>(store.shares)),
      workers_(workers / shares_),
      parts_(std::size_t{shards} * keys * shares_) {
  if (!store.drop_late) return;
  for (Part& part : parts_) part.clock.assign(workers_, 0);
}

void VersionedStore::merge(uint32_t shard, uint32_t key, uint32_t worker) {
  Part& part = at(shard, key, worker);
  if (++part.merged < static_cast<uint32_t>(store_.batch)) return;
  part.merged = 0;
  ++part.version;
}

VersionedStore::Level& VersionedStore::level(Part& part, uint32_t value) {
  const std::size_t i = value - part.base;
  if (i >= part.levels.size()) part.levels.resize(i + 1);
  return part.levels[i];
}

/// Does the quorum have this clock, given how many workers reached it? Those that finished below it count
/// too.
bool VersionedStore::met(const Part& part, uint32_t value, uint32_t reached) const {
  const auto gone = std::count_if(part.left.begin(), part.left.end(), [&](uint32_t c) { return c < value; });
  return reached + static_cast<uint32_t>(gone) >= static_cast<uint32_t>(store_.quorum);
}

void VersionedStore::leave(uint32_t shard, uint32_t key, uint32_t worker, uint32_t sent,
                           std::vector<uint32_t>& released) {
  Part& part = at(shard, key, worker);
  part.left.push_back(store_.drop_late ? part.clock[worker / shares_] : sent);
  for (std::size_t i = 0; i < part.levels.size(); ++i) {
    Level& l = part.levels[i];
    if (l.parked.empty() || !met(part, part.base + static_cast<uint32_t>(i), l.reached)) continue;
    released.insert(released.end(), l.parked.begin(), l.parked.end());
    l.parked.clear();
  }
}

void VersionedStore::reach(Part& part, uint32_t value, std::vector<uint32_t>& released) const {
  Level& l = level(part, value);
  ++l.reached;
  if (!l.parked.empty() && met(part, value, l.reached)) {
    released.insert(released.end(), l.parked.begin(), l.parked.end());
    l.parked.clear();
  }
  std::size_t passed = 0;
  while (passed < part.levels.size() && part.levels[passed].reached == workers_) ++passed;
  part.levels.erase(part.levels.begin(), part.levels.begin() + static_cast<std::ptrdiff_t>(passed));
  part.base += static_cast<uint32_t>(passed);
}

uint32_t VersionedStore::handled(uint32_t shard, uint32_t key, uint32_t worker, uint32_t number,
                                 uint32_t read, std::vector<uint32_t>& released) {
  Part& part = at(shard, key, worker);
  if (!store_.drop_late) {
    reach(part, number, released);
    return number;
  }
  uint32_t& clock = part.clock[worker / shares_];
  const uint32_t to = std::max(clock, read + 1);
  while (clock < to) reach(part, ++clock, released);
  return to;
}

bool VersionedStore::open(uint32_t shard, uint32_t key, uint32_t worker, uint32_t clock) const {
  const Part& part = at(shard, key, worker);
  const int64_t value = int64_t{clock} - store_.slack;
  if (value < int64_t{part.base}) return true;
  const auto i = static_cast<std::size_t>(value - int64_t{part.base});
  return met(part, static_cast<uint32_t>(value), i < part.levels.size() ? part.levels[i].reached : 0);
}

void VersionedStore::park(uint32_t shard, uint32_t key, uint32_t worker, uint32_t clock, uint32_t message) {
  Level& l = level(at(shard, key, worker), clock - static_cast<uint32_t>(store_.slack));
  l.parked.push_back(message);
}

int64_t VersionedStore::versions() const {
  int64_t sum = 0;
  for (const Part& part : parts_) sum += part.version;
  return sum;
}

}  // namespace tandem::sim
