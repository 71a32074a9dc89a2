// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a job's devices draw, from where a report's time goes (topologies/devices/device_power.h has the
// model).
#include <optional>

#include "schemes/report/report.h"
#include "sim/bound/placement.h"
#include "topologies/devices/device_power.h"
#include "topologies/system.h"

namespace tandem::sim {

/// Of worker 0, which stands for all. Compute of unknown kernels counts as products, what simultaneous
/// collectives add to kernels as streams. Ranks that wait for others or for another stage spin; nothing runs
/// while the host issues, input is read or a server works.
topologies::Activity activity_of(const Report& report);

/// Of a report with rate, setup and time shares, on such devices. Unset on CPUs, and where the rated power of
/// a device is not known. The interval multiplies by the model's error and ends at what the devices may draw;
/// where devices differ, or a fault slows one, it reaches from devices that wait while worker 0 computes to
/// such as never wait. Parts are by kind of kernel as the report names them, "communication", "waiting" for
/// other devices and "no kernel".
std::optional<schemes::DevicePower> device_power(const Report& report, const System& system,
                                                 const std::vector<DeviceSort>& sorts);

}  // namespace tandem::sim
