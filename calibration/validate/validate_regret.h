// SPDX-License-Identifier: Apache-2.0
#pragma once
// What choosing by predictions would have cost: of the configurations that were measured of one model on the
// same devices, the one that is predicted fastest beside the one that was.
#include <cstdint>
#include <string>
#include <vector>

#include "calibration/validate/validate.h"
#include "calibration/validate/validate_splits.h"

namespace tandem::calibration {

/// One choice: a model on so many devices of a system, in one precision.
struct RegretGrid {
  struct Configuration {
    std::string words;                   ///< "hybrid:tensor=4,pipeline=2, batch 8, recompute blocks"
    double measured = 0, predicted = 0;  ///< samples/s, measured in the mean over rows alike in words
    int64_t rows = 1;
  };
  std::string file, system, model, precision;
  int64_t devices = 1;
  std::vector<Configuration> configurations;  ///< two and more, in the order of the file
  /// The fastest by prediction and by measurement, the first of equals.
  const Configuration& pick() const;
  const Configuration& best() const;
  /// 1 - measured rate of the pick / of the best.
  double regret() const;
  /// The same of a configuration drawn at random, in the mean.
  double regret_of_chance() const;
};

/// Grids of at least two configurations, in the order of `rows`, then of `splits`. Rates are without anchor.
/// Rows that contradict their source or have no prediction are left out, rows that something was set on are
/// not.
std::vector<RegretGrid> regret_grids(const std::vector<ValidationRow>& rows,
                                     const std::vector<SplitRow>& splits);
/// A section of VALIDATION.md: by file, and the grids of most regret.
std::string regret_markdown(const std::vector<RegretGrid>& grids);
/// A line per grid, one header line (RFC 4180).
std::string regret_csv(const std::vector<RegretGrid>& grids);

}  // namespace tandem::calibration
