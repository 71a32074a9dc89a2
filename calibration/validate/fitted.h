// SPDX-License-Identifier: Apache-2.0
#pragma once
// Every figure of the data files that was fitted to published rates rather than taken from a source.
#include <string>
#include <vector>

#include "base/rooms.h"

namespace tandem::calibration {

struct FittedConstant {
  std::string file;  ///< "schemes/presets/horovod.json"
  std::string name;  ///< "overheads.compute_slowdown"; for a table of curves the number of its constants
  std::string rows;  ///< the rows that it was fitted to
};

/// Collected from the "fitted" entries of presets and systems, the gains of recipes, the curves of the stock
/// profile and the fitted libraries of links.json; in the order of their files. Throws InputError if an entry
/// names something that its file lacks.
std::vector<FittedConstant> fitted_constants();
/// A section of VALIDATION.md.
std::string fitted_markdown();

}  // namespace tandem::calibration
