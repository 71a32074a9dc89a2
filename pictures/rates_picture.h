// SPDX-License-Identifier: Apache-2.0
#pragma once
// The picture of VALIDATION.md.
#include <string>
#include <vector>

#include "calibration/validate/validate.h"
#include "pictures/gnuplot.h"

namespace tandem::pictures {

/// Predicted over published rates of all rows that count, coloured by the generation of their devices; filled
/// where the row is held out; nothing without such a row.
Pictures draw_rates(const std::vector<ValidationRow>& rows, const std::string& base);

}  // namespace tandem::pictures
