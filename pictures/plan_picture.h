// SPDX-License-Identifier: Apache-2.0
#pragma once
// Time against money, time against power, and what decides, from a document "tandem-plan-1".
#include <string>
#include <vector>

#include "base/json.h"
#include "pictures/gnuplot.h"

namespace tandem::pictures {

/// True for a document whose schema is "tandem-plan-1".
bool is_plan(const Json& document);

/// <base>-cost, <base>-power and <base>-inputs, each .png and .svg; returns the names. Candidates are points
/// with their intervals and their ranks; those that none beats in both are joined. What has no price is not
/// among the costs; without two candidates that can be compared there are no inputs. Throws InputError at the
/// place of a candidate that lacks something.
Pictures draw_plan(const Json& document, const std::string& base);

}  // namespace tandem::pictures
