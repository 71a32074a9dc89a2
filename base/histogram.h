// SPDX-License-Identifier: Apache-2.0
#pragma once
// Counts of non-negative whole numbers (staleness in versions).
#include <cstdint>
#include <vector>

#include "base/rooms.h"

namespace tandem::base {

/// Exact up to 4095; above that, 64 buckets per power of two (relative error below 1/64).
/// Fixed memory (< 64 KiB); add is O(1).
/// For one thread at a time.
class Histogram {
 public:
  struct Bin {
    int64_t value = 0;  ///< lowest value of the bin
    int64_t count = 0;
  };
  /// Requires value >= 0.
  void add(int64_t value, int64_t count = 1);
  void merge(const Histogram& other);
  int64_t count() const { return count_; }
  /// Of the exact values; 0 when empty.
  double mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }
  int64_t max() const { return max_; }
  /// Least bin value v with at least q of all counts at or below it, q in [0, 1]; 0 when empty.
  int64_t quantile(double q) const;
  /// Non-empty bins in increasing order.
  std::vector<Bin> bins() const;

 private:
  static std::size_t index(int64_t value);
  static int64_t lowest(std::size_t index);
  std::vector<int64_t> counts_;
  int64_t count_ = 0;
  int64_t max_ = 0;
  double sum_ = 0;
};

}  // namespace tandem::base
