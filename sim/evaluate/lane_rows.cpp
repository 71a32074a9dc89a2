// SPDX-License-Identifier: Apache-2.0
#include "sim/evaluate/lane_rows.h"

#include <algorithm>

#include "sim/evaluate/op_times.h"

namespace tandem::sim {

namespace {

/// Rows of a lane: where each is, the factor of its durations and from when on its host issues. Null: 1 for
/// all, and none is late.
struct UniformRows {
  int64_t* ends = nullptr;
  const double* factor = nullptr;
  const int64_t* begin = nullptr;
};

/// max(max(end, floor) + duration * factor, begin + issued) of `n` rows; all below 2^49 ps.
template <bool noisy, bool issues>
[[gnu::always_inline]] inline void run_uniform_rows(const UniformRows& rows, int64_t n, const UniformOp& op) {
  int64_t* __restrict ends = rows.ends;
  const double* __restrict by = rows.factor;
  const int64_t* __restrict from = rows.begin;
  const double seconds = Time{op.duration}.seconds();
  for (int64_t i = 0; i < n; ++i) {
    int64_t end = std::max(ends[i], op.floor) + (noisy ? short_picoseconds(seconds * by[i]) : op.duration);
    if (issues) end = std::max(end, from[i] + op.issued);
    ends[i] = end;
  }
}

[[gnu::always_inline]] inline void run_uniform_plain(const UniformRows& rows, int64_t n,
                                                     const UniformOp& op) {
  if (rows.factor == nullptr)
    return rows.begin == nullptr ? run_uniform_rows<false, false>(rows, n, op)
                                 : run_uniform_rows<false, true>(rows, n, op);
  return rows.begin == nullptr ? run_uniform_rows<true, false>(rows, n, op)
                               : run_uniform_rows<true, true>(rows, n, op);
}

[[gnu::always_inline]] inline int64_t most_plain(const int64_t* ends, int64_t n) {
  int64_t most = 0;
  for (int64_t i = 0; i < n; ++i) most = std::max(most, ends[i]);
  return most;
}

#if defined(__x86_64__)
/// The same numbers, four rows at a time.
[[gnu::target("avx2")]] void run_uniform_avx2(const UniformRows& rows, int64_t n, const UniformOp& op) {
  run_uniform_plain(rows, n, op);
}
[[gnu::target("avx2")]] int64_t most_avx2(const int64_t* ends, int64_t n) { return most_plain(ends, n); }

bool wide() {
  static const bool has = __builtin_cpu_supports("avx2") != 0;
  return has;
}
void run_uniform(const UniformRows& rows, int64_t n, const UniformOp& op) {
  return wide() ? run_uniform_avx2(rows, n, op) : run_uniform_plain(rows, n, op);
}
int64_t most_of(const int64_t* ends, int64_t n) { return wide() ? most_avx2(ends, n) : most_plain(ends, n); }
#else
void run_uniform(const UniformRows& rows, int64_t n, const UniformOp& op) { run_uniform_plain(rows, n, op); }
int64_t most_of(const int64_t* ends, int64_t n) { return most_plain(ends, n); }
#endif

}  // namespace

Latest latest_of(const Row& rows) {
  const auto most = std::max_element(rows.begin(), rows.end());
  return {*most, static_cast<uint32_t>(most - rows.begin())};
}

Row& LaneRows::rows() {
  if (same_) rows_.assign(rows_.size(), *same_);
  same_.reset();
  return rows_;
}

namespace {

/// Of the rows from `first` on.
UniformRows from(Row& rows, uint32_t first, const RowNoise& noise) {
  return {rows.data() + first, noise.factor.empty() ? nullptr : noise.factor.data() + first,
          noise.begin.empty() ? nullptr : noise.begin.data() + first};
}

}  // namespace

void LaneRows::run(const UniformOp& op, uint32_t now, const RowNoise& noise) {
  late_from_ = now;
  late_.push_back(op);
  run_uniform(from(rows(), 0, noise), now, op);
}

const Latest& LaneRows::catch_up(const RowNoise& noise) {
  constexpr uint32_t kBlock = 1024;
  const auto all = static_cast<uint32_t>(rows_.size());
  Latest out;
  for (uint32_t i = 0; i < late_from_; ++i) {
    if (rows_[i] > out.end) out = {rows_[i], i};
  }
  for (uint32_t first = late_from_; first < all; first += kBlock) {
    const uint32_t count = std::min(kBlock, all - first);
    for (const UniformOp& op : late_) run_uniform(from(rows_, first, noise), count, op);
    const auto begin = rows_.begin() + first;
    if (const int64_t most = most_of(&*begin, count); most > out.end)
      out = {most, first + static_cast<uint32_t>(std::find(begin, begin + count, most) - begin)};
  }
  late_.clear();
  return latest_ = out;
}

}  // namespace tandem::sim
