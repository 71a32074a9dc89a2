// SPDX-License-Identifier: Apache-2.0
#pragma once
// The picture of VALIDATION.md.
#include <string>
#include <vector>

#include "calibration/validate/validate.h"

namespace tandem::app {

/// Predicted over published rates of all rows that count, coloured by the generation of their devices; filled
/// where the row is held out. Writes <base>.png and <base>.svg; nothing without such a row. Throws as
/// Gnuplot::draw().
void draw_rates(const std::vector<ValidationRow>& rows, const std::string& base);

}  // namespace tandem::app
