// SPDX-License-Identifier: Apache-2.0
#pragma once
// Elasticities as text and data.
#include <string>
#include <vector>

#include "answers/elasticity.h"

namespace tandem::app {

/// As text and Markdown two columns per device count that holds the model, as csv one row per resource and
/// count, or JSON ("tandem-elasticities-1"). Text stays within `columns` (0: no limit).
std::string elasticities_as(const Question& question, const std::vector<Elasticity>& all,
                            const std::string& format, int columns);

}  // namespace tandem::app
