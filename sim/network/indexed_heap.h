// SPDX-License-Identifier: Apache-2.0
#pragma once
// A priority queue whose items can be found again.
#include <algorithm>
#include <cstdint>
#include <vector>

namespace tandem::sim {

/// Items with the least key on top, in a 4-ary heap. Where each item lies is kept in a list of the owner's,
/// which several heaps of different items may share: `at[item]`, valid while the item is in a heap. All
/// functions that change the heap take it. Order of equal keys: by the operations made alone.
/// For one thread at a time.
class IndexedHeap {
 public:
  struct Entry {
    double key;
    uint32_t item;
  };
  using Places = std::vector<uint32_t>;
  bool empty() const { return entries_.empty(); }
  std::size_t size() const { return entries_.size(); }
  const Entry& top() const { return entries_.front(); }
  double key(uint32_t place) const { return entries_[place].key; }
  /// O(log size).
  void push(Entry entry, Places& at) {
    entries_.push_back(entry);
    rise(entries_.size() - 1, entry, at);
  }
  /// Requires that the item has a larger key now. O(log size).
  void lower(Entry entry, Places& at) { rise(at[entry.item], entry, at); }
  /// O(log size).
  void erase(uint32_t place, Places& at) {
    const double gone = entries_[place].key;
    const Entry last = entries_.back();
    entries_.pop_back();
    if (place == entries_.size()) return;
    if (last.key < gone) {
      rise(place, last, at);
    } else {
      sink(place, last, at);
    }
  }
  /// Takes `by` off all keys, which must keep their order. O(size).
  void shift(double by) {
    for (Entry& e : entries_) e.key -= by;
  }

 private:
  void put(std::size_t place, Entry entry, Places& at) {
    entries_[place] = entry;
    at[entry.item] = static_cast<uint32_t>(place);
  }
  void rise(std::size_t place, Entry entry, Places& at) {
    for (; place > 0 && entry.key < entries_[(place - 1) / 4].key; place = (place - 1) / 4)
      put(place, entries_[(place - 1) / 4], at);
    put(place, entry, at);
  }
  void sink(std::size_t place, Entry entry, Places& at) {
    const std::size_t size = entries_.size();
    for (std::size_t first = 4 * place + 1; first < size; first = 4 * place + 1) {
      std::size_t least = first;
      for (std::size_t child = first + 1; child < std::min(first + 4, size); ++child)
        least = entries_[child].key < entries_[least].key ? child : least;
      if (!(entries_[least].key < entry.key)) break;
      put(place, entries_[least], at);
      place = least;
    }
    put(place, entry, at);
  }
  std::vector<Entry> entries_;
};

}  // namespace tandem::sim
