// SPDX-License-Identifier: Apache-2.0
#pragma once
// The earliest of many times that change one by one.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/bound/bound_program.h"

namespace tandem::sim {

/// A tournament tree over times, each kNever until set. For one thread at a time.
class MinTree {
 public:
  /// Makes room for n times or more. O(n) when it grows, which it does by doubling.
  void grow(std::size_t n) {
    if (n <= leaves_) return;
    const std::vector<int64_t> old(leaf(0), leaf(leaves_));
    while (leaves_ < n) leaves_ *= 2;
    tree_.assign(2 * leaves_, kNever);
    std::copy(old.begin(), old.end(), leaf(0));
    for (std::size_t i = leaves_; i-- > 1;) tree_[i] = std::min(tree_[2 * i], tree_[2 * i + 1]);
  }
  /// O(log n), less where a time nearby is earlier.
  void set(std::size_t i, int64_t time) {
    tree_[i += leaves_] = time;
    while (i > 1) {
      i /= 2;
      const int64_t least = std::min(tree_[2 * i], tree_[2 * i + 1]);
      if (tree_[i] == least) return;
      tree_[i] = least;
    }
  }
  int64_t least() const { return tree_[1]; }
  /// Which time is the least, the first of several. O(log n).
  std::size_t first() const {
    std::size_t i = 1;
    while (i < leaves_) i = 2 * i + (tree_[2 * i] <= tree_[2 * i + 1] ? 0 : 1);
    return i - leaves_;
  }

 private:
  std::vector<int64_t>::iterator leaf(std::size_t i) {
    return tree_.begin() + static_cast<std::ptrdiff_t>(leaves_ + i);
  }
  std::size_t leaves_ = 1;
  std::vector<int64_t> tree_ = {kNever, kNever};  ///< [0] is unused, [1] the root
};

}  // namespace tandem::sim
