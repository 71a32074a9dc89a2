// SPDX-License-Identifier: Apache-2.0
#pragma once
// One entry: model, system, scheme and devices in, Report out.
#include "schemes/report/report.h"
#include "sim/bound/bound_program.h"
#include "sim/request.h"

namespace tandem::sim {

/// A report with `fits` false if the model does not fit (sim/capacity.h says what would). Speed-up and
/// efficiency are relative to the fewest devices that hold it. Throws InputError for device counts or a
/// precision that the system lacks.
Report simulate(const Request& prediction);

/// Like simulate(), but skips speed-up and the rates of concurrent jobs, which cost extra simulations. Throws
/// as simulate().
Report simulate_fit(const Request& prediction);

/// Like simulate(), but skips memory, speed-up and concurrent jobs, which cost extra simulations. Throws as
/// simulate(), for one network.
Report simulate_rate(const Request& prediction);

/// Only Report::rate.samples_per_second, without checking memory. Throws as simulate() does.
double throughput(const Request& prediction);

/// throughput() if nothing varied from step to step, from three steps: what is simulated is the same but for
/// noise. Where the program is neither is_static() nor in_lock_step(), with an anchor, a disturbance, pauses,
/// stragglers or other jobs it is throughput(). Throws as simulate() does.
double quiet_throughput(const Request& prediction);

/// What a job could do if nothing varied from step to step and no transfer slowed another.
struct Undisturbed {
  double rate = 0;    ///< samples/s
  double launch = 0;  ///< share of the time that worker 0's device waits for its host to issue the next op
  bool bound = true;  ///< throughput() is no more, but for what noise adds by chance
};
/// Where the order in which messages arrive decides what happens (the program is not is_static()), it is no
/// bound but the rate of three steps. The anchor, pauses, stragglers and other jobs count for nothing. Cost:
/// one compilation, one binding, and where devices are equal three steps of one device of each role. Throws
/// as simulate() does.
Undisturbed undisturbed(const Request& prediction);

/// Throws InputError if the device lacks fp8 and no measurement in `profile` has it; other formats are always
/// possible.
void check_precision(Precision precision, const Device& device, const std::string& profile);

/// The factor on compute costs that makes the prediction meet its anchor; 1 without one.
double anchored_scale(const Request& prediction);

/// The resolved plan behind simulate(), for tests and `show`.
BoundProgram make_plan(const Request& prediction);

}  // namespace tandem::sim
