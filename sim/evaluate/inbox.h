// SPDX-License-Identifier: Apache-2.0
#pragma once
// Messages that repeating roles receive, and the versions that they bring.
#include <cstdint>
#include <utility>
#include <vector>

#include "base/rooms.h"

namespace tandem::sim {

/// All (instance, key) pairs of one channel that leads to a repeating role. The n-th recv takes the n-th
/// message of every source. Memory O(instances x keys x sources x messages unread).
/// For one thread at a time.
class Inbox {
 public:
  Inbox(uint32_t instances, uint32_t keys, uint32_t sources)
      : keys_(keys), sources_(sources), data_(std::size_t{instances} * keys * stride(), 0) {}

  /// The `number`-th message (from 1) of `source` is there, stamped `version`.
  void arrive(uint32_t instance, uint32_t key, uint32_t source, uint32_t number, uint32_t version) {
    while (number - taken(instance, key) > depth_) grow();
    uint32_t* const slot = this->slot(box(instance, key), number);
    ++slot[0];
    slot[1 + source] = version;
  }
  /// Whether the next recv of the key has all it waits for.
  bool ready(uint32_t instance, uint32_t key) const {
    const uint32_t* const b = box(instance, key);
    return slot(b, b[0] + 1)[0] == sources_;
  }
  /// Takes the next messages of the key; their versions are now what the instance computes on. Requires
  /// ready().
  void take(uint32_t instance, uint32_t key) {
    uint32_t* const b = box(instance, key);
    uint32_t* const slot = this->slot(b, ++b[0]);
    slot[0] = 0;
    for (uint32_t s = 1; s <= sources_; ++s) b[s] = slot[s];
  }
  uint32_t taken(uint32_t instance, uint32_t key) const { return box(instance, key)[0]; }
  uint32_t sources() const { return sources_; }
  /// Of the messages last taken; 0 before.
  uint32_t version(uint32_t instance, uint32_t key, uint32_t source) const {
    return box(instance, key)[1 + source];
  }

 private:
  /// Of an (instance, key): recvs done, the version of each source, then for `depth_` numbers of messages by
  /// turns that many sources heard and the stamp of each.
  std::size_t stride() const { return std::size_t{1 + sources_} * (1 + depth_); }
  uint32_t* box(uint32_t instance, uint32_t key) {
    return &data_[(std::size_t{instance} * keys_ + key) * stride()];
  }
  const uint32_t* box(uint32_t instance, uint32_t key) const {
    return &data_[(std::size_t{instance} * keys_ + key) * stride()];
  }
  template <typename T>
  T* slot(T* box, uint32_t number) const {
    return box + std::size_t{1 + sources_} * (1 + number % depth_);
  }
  /// Twice the room for messages not yet taken.
  void grow();

  uint32_t keys_, sources_;
  uint32_t depth_ = 1;
  std::vector<uint32_t> data_;
};

}  // namespace tandem::sim
