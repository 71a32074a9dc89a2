// SPDX-License-Identifier: Apache-2.0
#include "base/histogram.h"

#include <bit>
#include <cmath>

#include "base/error.h"

namespace tandem::base {

namespace {
constexpr int64_t kExact = 4096;
constexpr int kExactBits = 12;
constexpr int kSub = 64;
}  // namespace

std::size_t Histogram::index(int64_t value) {
  if (value < kExact) return static_cast<std::size_t>(value);
  const int64_t log = 63 - std::countl_zero(static_cast<uint64_t>(value));
  const int64_t within = (value >> (log - 6)) - kSub;
  return static_cast<std::size_t>(kExact + (log - kExactBits) * kSub + within);
}

int64_t Histogram::lowest(std::size_t index) {
  const auto i = static_cast<int64_t>(index);
  if (i < kExact) return i;
  const int64_t log = kExactBits + (i - kExact) / kSub;
  return (kSub + (i - kExact) % kSub) << (log - 6);
}

void Histogram::add(int64_t value, int64_t count) {
  TANDEM_CHECK(value >= 0 && count >= 0);
  const std::size_t i = index(value);
  if (counts_.size() <= i) counts_.resize(i + 1);
  counts_[i] += count;
  count_ += count;
  sum_ += static_cast<double>(value) * static_cast<double>(count);
  if (count > 0 && value > max_) max_ = value;
}

void Histogram::merge(const Histogram& other) {
  if (counts_.size() < other.counts_.size()) counts_.resize(other.counts_.size());
  for (std::size_t i = 0; i < other.counts_.size(); ++i) counts_[i] += other.counts_[i];
  count_ += other.count_;
  sum_ += other.sum_;
  if (other.max_ > max_) max_ = other.max_;
}

int64_t Histogram::quantile(double q) const {
  const double target = q * static_cast<double>(count_);
  double seen = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    seen += static_cast<double>(counts_[i]);
    if (counts_[i] > 0 && seen >= target) return lowest(i);
  }
  return 0;
}

std::vector<Histogram::Bin> Histogram::bins() const {
  std::vector<Bin> out;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    if (counts_[i] > 0) out.push_back({lowest(i), counts_[i]});
  }
  return out;
}

}  // namespace tandem::base
