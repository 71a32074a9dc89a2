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
      : keys_(keys),
        sources_(sources),
        taken_(std::size_t{instances} * keys, 0),
        got_(taken_),
        stamp_(taken_.size() * sources, 0),
        version_(stamp_) {}

  /// The `number`-th message (from 1) of `source` is there, stamped `version`.
  void arrive(uint32_t instance, uint32_t key, uint32_t source, uint32_t number, uint32_t version) {
    const std::size_t box = std::size_t{instance} * keys_ + key;
    while (number - taken_[box] > depth_) grow();
    const std::size_t slot = box * depth_ + number % depth_;
    ++got_[slot];
    stamp_[slot * sources_ + source] = version;
  }
  /// Whether the next recv of the key has all it waits for.
  bool ready(uint32_t instance, uint32_t key) const {
    const std::size_t box = std::size_t{instance} * keys_ + key;
    return got_[box * depth_ + (taken_[box] + 1) % depth_] == sources_;
  }
  /// Takes the next messages of the key; their versions are now what the instance computes on. Requires
  /// ready().
  void take(uint32_t instance, uint32_t key) {
    const std::size_t box = std::size_t{instance} * keys_ + key;
    const std::size_t slot = box * depth_ + ++taken_[box] % depth_;
    got_[slot] = 0;
    for (uint32_t s = 0; s < sources_; ++s) version_[box * sources_ + s] = stamp_[slot * sources_ + s];
  }
  uint32_t taken(uint32_t instance, uint32_t key) const {
    return taken_[std::size_t{instance} * keys_ + key];
  }
  uint32_t sources() const { return sources_; }
  /// Of the messages last taken; 0 before.
  uint32_t version(uint32_t instance, uint32_t key, uint32_t source) const {
    return version_[(std::size_t{instance} * keys_ + key) * sources_ + source];
  }

 private:
  /// Twice the room for messages not yet taken.
  void grow();

  uint32_t keys_, sources_;
  uint32_t depth_ = 1;
  std::vector<uint32_t> taken_;    ///< [instance, key]: recvs done
  std::vector<uint32_t> got_;      ///< [instance, key, number % depth]: sources heard
  std::vector<uint32_t> stamp_;    ///< [instance, key, number % depth, source]
  std::vector<uint32_t> version_;  ///< [instance, key, source]
};

}  // namespace tandem::sim
