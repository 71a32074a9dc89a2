// SPDX-License-Identifier: Apache-2.0
#pragma once
// The way of copies between the devices of a run. Internal to exec.
#include <string>

#include "exec/run/run_plan.h"

namespace tandem::exec {

/// In words, for a report; "" if there is no choice.
std::string route_text(const RunPlan& plan);
/// Throws InputError where the route that is asked for does not exist.
void check_route(const RunPlan& plan);

}  // namespace tandem::exec
