// SPDX-License-Identifier: Apache-2.0
#pragma once
// A plan as JSON.
#include <string>

#include "plan/plan.h"

namespace tandem::plan {

/// A "tandem-plan-1" document (docs/formats/plan.schema.json).
std::string plan_json(const PlanQuestion& question, const Plan& plan);

}  // namespace tandem::plan
