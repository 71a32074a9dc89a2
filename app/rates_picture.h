#pragma once
// The picture of VALIDATION.md. Floor 5.
#include <string>
#include <vector>

#include "calibration/validate.h"

namespace tandem {

/// Predicted over published rates of all rows that count, coloured by the generation of their devices; filled
/// where nothing was set on the row. Writes <base>.png and <base>.svg; nothing without such a row. Throws as
/// Gnuplot::draw().
void draw_rates(const std::vector<ValidationRow>& rows, const std::string& base);

}  // namespace tandem
