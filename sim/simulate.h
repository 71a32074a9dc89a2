// SPDX-License-Identifier: Apache-2.0
#pragma once
// One entry: model, system, scheme and devices in, Report out.
#include "schemes/report.h"
#include "sim/bound/bound_program.h"
#include "sim/request.h"

namespace tandem::sim {

/// A report with `fits` false when the model does not fit (sim/capacity.h says what would). Speed-up and
/// efficiency count from the fewest devices that hold it.
/// Throws InputError for device counts the system lacks or precision the device lacks.
Report simulate(const Request& prediction);

/// The report without what takes further simulations or walks: memory, the speed-up and jobs beside. Throws
/// as simulate(), for one network.
Report simulate_rate(const Request& prediction);

/// Report::samples_per_second alone, without looking at memory or at one device. Throws as simulate() does.
double throughput(const Request& prediction);

/// The factor on compute costs with which the prediction meets its anchor; 1 without one.
double anchored_scale(const Request& prediction);

/// The resolved plan behind simulate(), for tests and `show`.
BoundProgram make_plan(const Request& prediction);

}  // namespace tandem::sim
