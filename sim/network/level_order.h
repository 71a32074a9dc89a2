// SPDX-License-Identifier: Apache-2.0
#pragma once
// Items in order of keys that change a little at a time, some of which are marked.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace tandem::sim {

/// A sorted list in which an item's neighbours are known and the first marked one is found by a scan of
/// bytes. Where most keys change little and most items get marked, as links in the order of their levels,
/// this is quicker than a heap: marking one takes no comparison. Order of equal keys: by the operations made
/// alone. For one thread at a time.
class LevelOrder {
 public:
  struct Entry {
    double key;
    uint32_t item;
  };
  /// Items are numbers below `items`, keys finite and >= 0.
  explicit LevelOrder(std::size_t items) : rank_(items, 0), entries_{{0, 0}}, marks_{Mark::no} {}
  /// Requires that the item is not in the list. O(items after it).
  void add(uint32_t item, double key) {
    rank_[item] = static_cast<uint32_t>(entries_.size());
    entries_.push_back({key, item});
    marks_.push_back(Mark::no);
    move(item, key);
  }
  /// O(items after it).
  void erase(uint32_t item) {
    from_ = std::min<std::size_t>(from_, rank_[item] - 1);
    for (std::size_t at = rank_[item]; at + 1 < entries_.size(); ++at)
      put(at, entries_[at + 1], marks_[at + 1]);
    entries_.pop_back();
    marks_.pop_back();
  }
  /// Key of the item before this one, 0 of the first.
  double before(uint32_t item) const { return entries_[rank_[item] - 1].key; }
  void mark(uint32_t item, bool on = true) {
    const uint32_t at = rank_[item];
    marks_[at] = static_cast<Mark>(static_cast<uint8_t>(marks_[at]) | static_cast<uint8_t>(on));
    from_ = std::min<std::size_t>(from_, at);
  }
  /// Gives the item another key; its mark stays. O(items between its old place and its new one).
  void move(uint32_t item, double key) {
    const std::size_t begin = rank_[item];
    std::size_t at = begin;
    const Mark mark = marks_[at];
    for (; entries_[at - 1].key > key; --at) put(at, entries_[at - 1], marks_[at - 1]);
    for (; at + 1 < entries_.size() && entries_[at + 1].key < key; ++at)
      put(at, entries_[at + 1], marks_[at + 1]);
    put(at, {key, item}, mark);
    from_ = std::min({from_, at, begin});
  }
  /// The first item that is marked, whose mark it takes away; null: none is. O(items passed by / 32).
  const Entry* pop() {
    const void* const found = std::memchr(&marks_[from_], static_cast<int>(Mark::yes), marks_.size() - from_);
    if (found == nullptr) {
      from_ = marks_.size() - 1;
      return nullptr;
    }
    from_ = static_cast<std::size_t>(static_cast<const Mark*>(found) - marks_.data());
    marks_[from_] = Mark::no;
    return &entries_[from_];
  }

 private:
  enum class Mark : uint8_t { no, yes };  // not a character type, whose stores might change anything
  void put(std::size_t at, Entry entry, Mark mark) {
    entries_[at] = entry;
    marks_[at] = mark;
    rank_[entry.item] = static_cast<uint32_t>(at);
  }
  std::vector<uint32_t> rank_;  ///< [item]: its place in entries_
  std::vector<Entry> entries_;  ///< from 1 on, by key; [0] is below all
  std::vector<Mark> marks_;     ///< parallel to entries_
  std::size_t from_ = 0;        ///< none before it is marked
};

}  // namespace tandem::sim
