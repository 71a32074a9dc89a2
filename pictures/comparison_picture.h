// SPDX-License-Identifier: Apache-2.0
#pragma once
// How many times faster one side of a comparison is, from a document "tandem-compare-1", or each of several
// than the first, from "tandem-compare-several-1".
#include <string>
#include <vector>

#include "base/json.h"
#include "pictures/gnuplot.h"

namespace tandem::pictures {

/// True for a document of one of these schemas.
bool is_comparison(const Json& document);

/// <base>.png and <base>.svg: a row for each model and device count that both sides hold, with the ratio of
/// their rates, its interval and what parts of the change alone give; returns the names. Throws InputError at
/// the place of a row that lacks something, and where no row has a ratio.
Pictures draw_comparison(const Json& document, const std::string& base);

}  // namespace tandem::pictures
