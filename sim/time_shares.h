// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where worker 0's time went, from a Trace into a Report.
#include <functional>
#include <string>

#include "schemes/report/report.h"
#include "sim/bind/bind.h"
#include "sim/evaluate/trace.h"

namespace tandem::sim {

/// Fills Report::time. `who` names a worker.
void add_time_shares(Report& report, const Trace& trace, const Bound& bound,
                     const std::function<std::string(uint32_t)>& who);

}  // namespace tandem::sim
