// SPDX-License-Identifier: Apache-2.0
#pragma once
// Predicted against published staleness (calibration/data/staleness.json).
#include <string>
#include <vector>

#include "base/json.h"

namespace tandem::calibration {

struct StalenessRow {
  std::string name, source, scheme;
  int64_t workers = 1;
  std::string gives;  ///< the constant taken from the run, which is then not scored
  double published_mean = 0, predicted_mean = 0;
  /// Total variation distance between the histograms, in [0, 1]; -1 if none was published.
  double distance = -1;
};

/// Runs every case of the file. Throws InputError.
std::vector<StalenessRow> validate_staleness();
/// One case of the file.
StalenessRow validate_staleness_run(const Json& run);
/// A section of VALIDATION.md.
std::string staleness_markdown(const std::vector<StalenessRow>& rows);

}  // namespace tandem::calibration
