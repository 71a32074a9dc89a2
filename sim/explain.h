// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a Report says besides its figures: where the time went, which links are busy, how sure the rate is,
// and what the reader should know.
#include <string>
#include <utility>
#include <vector>

#include "schemes/report/report.h"
#include "sim/simulation.h"

namespace tandem::sim {

/// Everything that was asked, by name, as Report::Setup::inputs.
std::vector<std::pair<std::string, std::string>> resolved_inputs(const Request& prediction);

/// Fills the report's time shares, links, bottleneck (by the largest share), interval, notes, extrapolations
/// and timeline. Its samples_per_second is known. `run`: of the prediction's devices, by `simulation`;
/// `anchored`: its anchor was met. Cost: one or two evaluations more where anything is sent.
void explain(Report& report, const Request& prediction, const Simulation& simulation, const Simulated& run,
             bool anchored);

}  // namespace tandem::sim
