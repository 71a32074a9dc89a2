// SPDX-License-Identifier: Apache-2.0
#pragma once
// How much slower devices get under a lower power limit, as published curves say
// (topologies/power_limits.json).
#include "topologies/devices/device.h"

namespace tandem::topologies {

/// Speed of a device's kernels under a power limit of `share` of the rated one, in (0, 1]. Measured on V100,
/// P100 and RTX 3090; of other devices the value is the mean of all curves, and the bounds cover them all.
/// Not below the least limit that was measured: throws InputError, which names it. Reads the data file.
PowerLimit power_limit(const Device& device, double share);
/// The least `share` that power_limit() takes. Reads the data file.
double least_power_limit(const Device& device);

/// The device with the limit that `watts` states ("300W"), a field of a system's file. Throws InputError at
/// its place with the range that is valid.
Device with_power_limit(Device device, const Json& watts);

/// "v100-pcie at 175 W"; the name alone where no limit is set.
std::string limited_name(const Device& device);
/// "power limit of 175 W (70 % of 250 W) on v100-pcie: kernels at 90.4 % of their speed (88.1 to 94.6 %), as
/// measured on V100 in training (Zeus, 2023)". Requires a limit below 1.
std::string describe_power_limit(const Device& device);

}  // namespace tandem::topologies
