// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where a lane of a role is in a sweep: the end of its last op, a row for each instance.
#include <cstdint>
#include <optional>
#include <vector>

namespace tandem::sim {

using Row = std::vector<int64_t>;

/// A compute op that asks the same of all rows; times in picoseconds.
struct UniformOp {
  int64_t floor = 0;     ///< what else all of them wait for
  int64_t duration = 0;  ///< times a row's factor
  int64_t issued = 0;    ///< after a row's begin: it ends no earlier
};

/// Of an iteration, by row; empty: 1 for all, and no host that issues.
struct RowNoise {
  const std::vector<double>& factor;
  const Row& begin;
};

/// The latest row, the first of several.
struct Latest {
  int64_t end = 0;
  uint32_t row = 0;
};
Latest latest_of(const Row& rows);

/// Ops that ask the same of all rows are run by many of them at a time, so that the rows stay in a core's
/// cache: all but the first rows are behind until catch_up(). Where all rows are at one time, it is kept
/// once. For one thread at a time.
class LaneRows {
 public:
  void assign(uint32_t rows) { rows_.assign(rows, 0); }
  bool behind() const { return !late_.empty(); }
  std::optional<int64_t> same() const { return same_; }
  /// Needs behind() to be false.
  void all_at(int64_t end) { same_ = end; }
  int64_t end(uint32_t row) const { return same_ ? *same_ : rows_[row]; }
  /// A number for each row, to be read and written; behind() tells whether they have run all ops.
  Row& rows();

  /// max(max(end, floor) + duration * factor, begin + issued): of the first `now` rows at once, at least one.
  /// All times below 2^49 ps. The same `now` for all ops until catch_up().
  void run(const UniformOp& op, uint32_t now, const RowNoise& noise);
  /// Needs behind(), and the noise that the ops were run with. O(rows x ops).
  const Latest& catch_up(const RowNoise& noise);
  /// What catch_up() found last.
  const Latest& latest() const { return latest_; }

 private:
  Row rows_;
  std::optional<int64_t> same_;
  std::vector<UniformOp> late_;
  uint32_t late_from_ = 0;
  Latest latest_;
};

}  // namespace tandem::sim
