// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which schemes, models and backends are only simulated. Internal to exec.
#include <string>

#include "exec/run/run_plan.h"

namespace tandem::exec {

/// Throws InputError with the reason if what is planned cannot be executed.
void check_executable(const RunPlan& plan);
/// The InputError that names the plan's scheme and the reason.
[[noreturn]] void refuse(const RunPlan& plan, const std::string& why);

}  // namespace tandem::exec
