// SPDX-License-Identifier: Apache-2.0
#pragma once
// A plan's question from options.
#include <vector>

#include "answers/asking.h"
#include "plan/plan.h"

namespace tandem::plan {

/// Options of a plan, without those of how it is shown.
std::vector<Option> plan_options();

/// PlanQuestion::progress and ::stop are left empty. Prices are looked at on the clock's date, unless --today
/// says another. Throws InputError and UsageError.
PlanQuestion read_plan_question(const Values& given, const Hooks& hooks);

}  // namespace tandem::plan
