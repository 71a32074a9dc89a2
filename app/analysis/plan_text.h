// SPDX-License-Identifier: Apache-2.0
#pragma once
// A plan as text and table.
#include <string>

#include "app/console/table.h"
#include "plan/plan.h"

namespace tandem::app {

/// A row per candidate, best first. `whole`: with bounds, probabilities and the way to train, for machines.
Table plan_table(const plan::PlanQuestion& question, const plan::Plan& plan, bool whole);

/// Table, how to train on the first, what decides, what is assumed, what is left out. Lines are at most
/// `columns` wide (0: no limit), except commands.
std::string plan_text(const plan::PlanQuestion& question, const plan::Plan& plan, int columns);

}  // namespace tandem::app
