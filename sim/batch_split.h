// SPDX-License-Identifier: Apache-2.0
#pragma once
// How many samples each device trains on where devices differ.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/request.h"

namespace tandem::sim {

/// Samples in one pass of each device of the cluster, the job's batch on average, in proportion to the rate
/// that each has alone at the job's batch: `rate_alone` of a device by its number in the cluster, asked once
/// for each kind of devices. Throws InputError where `program`, the job's on the cluster, needs equal
/// batches.
std::vector<int64_t> split_by_speed(const Request& prediction, const Cluster& cluster, const Program& program,
                                    const std::function<double(int64_t device)>& rate_alone);

/// "46 samples on each v100-pcie, 18 on each p100-pcie", by the parts that split_by_speed() gave.
std::string split_text(const Request& prediction, const Cluster& cluster,
                       const std::vector<int64_t>& samples);

}  // namespace tandem::sim
