// SPDX-License-Identifier: Apache-2.0
#pragma once
// The scatter of a cross-check: predicted over executed, from a file "tandem-check-1".
#include <string>
#include <vector>

#include "base/json.h"
#include "pictures/gnuplot.h"

namespace tandem::pictures {

/// True for a document whose schema is "tandem-check-1".
bool is_check(const Json& document);

/// One picture per metric ("samples_per_second", "staleness_mean", ...): <base>-<metric>.png and .svg;
/// returns the names. Points of one model share a colour; from nine models on, the rarest share the last.
/// Throws InputError at the place of a case that lacks something.
Pictures draw_check(const Json& document, const std::string& base);

}  // namespace tandem::pictures
