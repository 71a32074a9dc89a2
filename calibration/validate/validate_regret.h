// SPDX-License-Identifier: Apache-2.0
#pragma once
// The cost of choosing by predictions: among measured settings of one model on the same devices, those
// predicted fastest against the one that was fastest.
#include <cstdint>
#include <string>
#include <vector>

#include "calibration/validate/validate.h"
#include "calibration/validate/validate_splits.h"

namespace tandem::calibration {

/// One choice: a model on a number of devices of a system, in one precision.
struct RegretGrid {
  /// What may be chosen: scheme, split, micro-batch, recomputation, recipe.
  struct Setting {
    std::string words;           ///< "hybrid:tensor=4,pipeline=2, batch 8, recompute blocks"
    double measured = 0;         ///< samples/s; the mean of rows with equal words
    schemes::Report::Rate rate;  ///< predicted without anchor
    int64_t rows = 1;
    double predicted() const { return rate.samples_per_second; }
  };
  std::string file, system, model, precision;
  int64_t devices = 1;
  std::vector<Setting> settings;  ///< two and more, the fastest by prediction first; equals as in the file
  /// The fastest by prediction and by measurement; the first of equals.
  const Setting& pick() const { return settings.front(); }
  const Setting& best() const;
  /// 1 - measured rate of the pick / of the best.
  double regret() const { return regret_of_first(1); }
  /// The same of the best measured of the first `count` by prediction: what is lost by measuring those.
  double regret_of_first(std::size_t count) const;
  /// The same of a random setting, on average.
  double regret_of_chance() const;
};

/// Settings that `tandem advise` prints.
inline constexpr std::size_t kFirstFive = 5;

/// Grids of at least two settings, in the order of `rows`, then of `splits`. Rows that contradict their
/// source or have no prediction are left out; rows that something was fitted to are not.
std::vector<RegretGrid> regret_grids(const std::vector<ValidationRow>& rows,
                                     const std::vector<SplitRow>& splits);
/// A section of the pages: by file, how the rate of the pick is predicted, and the grids with the largest
/// regret.
std::string regret_markdown(const std::vector<RegretGrid>& grids);
/// A line per grid, one header line (RFC 4180).
std::string regret_csv(const std::vector<RegretGrid>& grids);

}  // namespace tandem::calibration
