// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whether the probabilities that one prediction beats another hold: reliability and Brier score over pairs of
// published rates.
#include <string>
#include <vector>

#include "calibration/validate/validate.h"
#include "calibration/validate/validate_regret.h"

namespace tandem::calibration {

/// Two published rates of one source, with the one that is predicted faster first.
struct Contest {
  std::string source, model, first, second;
  double probability = 0.5;  ///< that the first is faster (answers::probability_faster); at least 0.5
  double ratio = 1;          ///< published, first over second; not 1
  double weight = 1;         ///< settings of a grid: such that each grid counts once
  bool held_out = false;     ///< nothing was fitted to either
  bool won() const { return ratio > 1; }
};

/// Machines that ran the same: pairs of rows of a source that differ in their system alone, each system by
/// the mean of its rows. Rows that contradict their source, gave a figure or have no prediction are left out.
std::vector<Contest> machine_contests(const std::vector<ValidationRow>& rows);
/// All pairs of settings of each grid, which together weigh 1.
std::vector<Contest> setting_contests(const std::vector<RegretGrid>& grids);

/// Weighted mean of the squared difference of probability and outcome (Brier 1950): 0.25 for one that knows
/// nothing, less is better; 0 without contests.
double brier_score(const std::vector<Contest>& contests);

/// A section of the pages: reliability of both kinds of pairs, and by source.
std::string chances_markdown(const std::vector<Contest>& machines, const std::vector<Contest>& settings);

}  // namespace tandem::calibration
