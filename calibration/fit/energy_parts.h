// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which kernels a graph's energy went to.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "calibration/fit/measurements.h"

namespace tandem::calibration {

/// DevicePower::parts of a step of one worker: the measured times of the graph's kernels, weighted by what
/// products, other kernels and a device on which nothing runs draw on average
/// (topologies/devices/device_power.h). A meter that is read ten times a second cannot tell kernels apart.
/// Empty where no kernel was timed. Pure; any thread may call.
std::vector<std::pair<std::string, double>> energy_parts(const Measurements& m, uint32_t graph);

}  // namespace tandem::calibration
