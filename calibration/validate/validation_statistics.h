// SPDX-License-Identifier: Apache-2.0
#pragma once
// Summary of the validation's rows: errors by group, the aims, the worst rows.
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "calibration/validate/validate.h"

namespace tandem::calibration {

/// Whether a row is scored: it does not contradict its source, gave no figure and has a prediction.
bool counts(const ValidationRow& row);
/// Whether it has a published and a predicted speed-up, on more devices than its anchor.
bool has_speedup(const ValidationRow& row);
/// Whether its rate without anchor can be compared.
bool has_rate(const ValidationRow& row);
/// Whether nothing was fitted to the row nor, for its rate, to the one-device rate of its series.
bool unseen_rate(const ValidationRow& row);
/// Whether it computes in two bytes.
bool half_precision(const ValidationRow& row);

/// Errors are predicted / published - 1.
struct Errors {
  std::vector<double> all;          ///< signed
  int64_t intervals = 0, held = 0;  ///< rows with an interval, and those with the published figure inside
  double widths = 0, misses = 0;    ///< sums: ln(high / low), and the distances of published figures outside
  double bias() const;              ///< mean of the signed errors
  double mean() const;              ///< ... of the absolute errors
  double quantile(double q) const;  ///< ... of the absolute errors, 0 without rows
  int64_t within(double limit) const;  ///< number of absolute errors up to the limit
  double coverage() const;             ///< 0 without intervals
  double width() const;                ///< mean
  /// Mean interval score of logarithms at the 90 % level (Gneiting and Raftery 2007, "Strictly Proper Scoring
  /// Rules, Request, and Estimation", eq. 43): the width, and 20 times the distance outside. Less is better.
  double interval_score() const;
};
/// Adds a row with error(), published, low and high.
template <typename Row>
void add_error(Errors& errors, const Row& row) {
  errors.all.push_back(row.error());
  ++errors.intervals;
  errors.held += row.low <= row.published && row.published <= row.high;
}
/// Heads of the cells below, and the line under a table's first head and these.
inline constexpr std::string_view kErrorHead =
    "rows | mean error | bias | worst | inside the interval |\n|---|---:|---:|---:|---:|---:|\n";
/// "| 8 | 12.0 % | -3.1 % | 30.2 % | 88 % |".
std::string worst_cells(const Errors& errors);
using RowFilter = std::function<bool(const ValidationRow&)>;
Errors speedup_errors(const std::vector<ValidationRow>& rows, const RowFilter& filter);
Errors rate_errors(const std::vector<ValidationRow>& rows, const RowFilter& filter);

/// Rows of one generation of devices, precision and family, on one or several nodes.
struct RowGroup {
  std::string generation, precision, family;
  bool several_nodes = false;
  Errors speedups, rates;
};
/// Groups with a figure, by generation in the order of their years, then precision, family and nodes. Of
/// `held_out` rows or of the others; rates that the stock curves were fitted to are among the others.
std::vector<RowGroup> row_groups(const std::vector<ValidationRow>& rows, bool held_out);

/// A goal of the predictions, and the current value.
struct Aim {
  std::string what;
  double low = 0, high = 0;  ///< the target range
  double value = 0;
  int64_t rows = 0;  ///< 0: nothing to judge by
  bool percent = true;
  bool met() const { return rows > 0 && value >= low && value <= high; }
  std::string range() const;  ///< "at most 5.0 %", "0.80 and more", "85.0 % to 95.0 %"
  std::string figure() const;
};
std::vector<Aim> aims(const std::vector<ValidationRow>& rows);

/// How well the order of schemes that HKBU measured on one network of machines is predicted.
struct SchemeOrder {
  std::string system;
  int64_t rows = 0;              ///< on several nodes, in grids of one model and device count
  int64_t pairs = 0, clear = 0;  ///< of a grid's rows, and those whose order the runs establish
  double tau = 0;                ///< Kendall's, averaged over grids
  double clear_tau = 0;          ///< the same over clear pairs only
};
/// A pair is clear if its means differ by more than twice the standard deviation of their difference, from
/// the spread of runs that the source states.
SchemeOrder order_of_schemes(const std::vector<ValidationRow>& rows, const std::string& system);
/// Those with rows, by network.
std::vector<SchemeOrder> orders_of_schemes(const std::vector<ValidationRow>& rows);

/// The row with the largest error in each series, of the worst `count` series. A row counts by the larger of
/// its two errors, as a ratio.
std::vector<const ValidationRow*> worst_rows(const std::vector<ValidationRow>& rows, std::size_t count);
/// max(predicted / published, published / predicted), of the speed-up or the rate, whichever is larger.
double worst_ratio(const ValidationRow& row);

/// In the order of their years; others follow.
const std::vector<std::string>& generations();

}  // namespace tandem::calibration
