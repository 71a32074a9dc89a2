// SPDX-License-Identifier: Apache-2.0
#pragma once
// A comparison (answers/comparison.h) as tables.
#include <string>
#include <vector>

#include "answers/comparison.h"
#include "app/console/report_text.h"

namespace tandem::app {

/// A row per pair with plain numbers, for spreadsheets. `pairs`: at least one.
std::string compare_csv(const std::vector<ReportPair>& pairs);
/// One row each; the model if they differ.
Table several_table(const std::vector<OfSeveral>& rows);

}  // namespace tandem::app
