// SPDX-License-Identifier: Apache-2.0
#pragma once
// Kinds of training that published rates speak of, and what those cost that no other source has.
#include <string>
#include <vector>

#include "calibration/validate/validate.h"

namespace tandem::calibration {

/// calibration/profiles/met.json: families of models by architecture and width, and recipes by width, of
/// which two files of `rows` have a row each, in the order of their names. Doubtful rows do not count.
std::string kinds_json(const std::vector<ValidationRow>& rows);

/// A section of the pages: errors and intervals of held-out rates whose kind another file has too, and of
/// those whose kind none has (sim/met_kinds.h).
std::string kinds_markdown(const std::vector<ValidationRow>& rows);

}  // namespace tandem::calibration
