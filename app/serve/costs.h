// SPDX-License-Identifier: Apache-2.0
#pragma once
// What answers cost at a price for a device and hour, and the command that asks for them.
#include <string>
#include <vector>

#include "answers/values.h"
#include "base/json_writer.h"
#include "schemes/report/report.h"

namespace tandem::app {

/// Of each report: {"devices", "usd_per_hour", "usd_per_million_samples", "usd_to_target"}; the last two null
/// where there is no rate or no target, the last {"low", "value", "high"} by the interval of the rate. `usd`:
/// of a device and hour.
JsonWriter costs_json(const std::vector<Report>& reports, double usd);

/// `tandem predict` with the question's options; a machine that is a document stands as "NAME.json".
std::string command_of(const Values& question);

}  // namespace tandem::app
