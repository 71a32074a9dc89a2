// SPDX-License-Identifier: Apache-2.0
#pragma once
// The cost of choosing by predictions: among measured configurations of one model on the same devices, the
// one predicted fastest against the one that was fastest.
#include <cstdint>
#include <string>
#include <vector>

#include "calibration/validate/validate.h"
#include "calibration/validate/validate_splits.h"

namespace tandem::calibration {

/// One choice: a model on a number of devices of a system, in one precision.
struct RegretGrid {
  struct Configuration {
    std::string words;                   ///< "hybrid:tensor=4,pipeline=2, batch 8, recompute blocks"
    double measured = 0, predicted = 0;  ///< samples/s; the mean of rows with equal words
    int64_t rows = 1;
  };
  std::string file, system, model, precision;
  int64_t devices = 1;
  std::vector<Configuration> configurations;  ///< two and more, in the order of the file
  /// The fastest by prediction and by measurement; the first of equals.
  const Configuration& pick() const;
  const Configuration& best() const;
  /// 1 - measured rate of the pick / of the best.
  double regret() const;
  /// The same for a random configuration, on average.
  double regret_of_chance() const;
};

/// Grids of at least two configurations, in the order of `rows`, then of `splits`. Rates are without anchor.
/// Rows that contradict their source or have no prediction are left out; rows that something was fitted to
/// are not.
std::vector<RegretGrid> regret_grids(const std::vector<ValidationRow>& rows,
                                     const std::vector<SplitRow>& splits);
/// A section of VALIDATION.md: by file, and the grids with the largest regret.
std::string regret_markdown(const std::vector<RegretGrid>& grids);
/// A line per grid, one header line (RFC 4180).
std::string regret_csv(const std::vector<RegretGrid>& grids);

}  // namespace tandem::calibration
