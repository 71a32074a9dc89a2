// SPDX-License-Identifier: Apache-2.0
#pragma once
// Boards that differ in one thing: the published ratio of their rates against the predicted one
// (calibration/data/pairs.json).
#include <cstdint>
#include <string>
#include <vector>

#include "schemes/report/report.h"

namespace tandem::calibration {

/// One run on both boards. Ratios are changed / plain. The changed board is predicted as the plain one with
/// the change that the file states (System::Sets), as `tandem compare` does; both predictions have one
/// anchor, the plain board's published rate on its fewest devices.
struct PairRow {
  std::string what, plain, changed, model, scheme, precision;
  int64_t batch = 0, devices = 0;
  double published = 1, predicted = 1;
  Report::Interval interval;  ///< of `predicted`
};

/// Summary of the rows.
struct PairSums {
  /// A published ratio that differs from 1 by at least this is an effect.
  static constexpr double kEffect = 0.03;
  int64_t rows = 0, effects = 0;
  int64_t found = 0;         ///< effects predicted with the right sign and within a factor of two
  int64_t false_alarms = 0;  ///< effects predicted where none was published
  int64_t inside = 0;        ///< published ratios inside the interval of their prediction
  double error = 0;          ///< mean of |predicted / published - 1|
  double error_of_one = 0;   ///< the same for predicting no difference
};
/// `plain`: only of this board; default: all.
PairSums sum_pairs(const std::vector<PairRow>& rows, const std::string& plain = "");

/// Every run of the file that both boards have on more devices than the anchor's. Throws InputError.
std::vector<PairRow> validate_pairs();
/// A section of VALIDATION.md.
std::string pairs_markdown(const std::vector<PairRow>& rows);
/// Every row, all columns, one header line (RFC 4180).
std::string pairs_csv(const std::vector<PairRow>& rows);

}  // namespace tandem::calibration
