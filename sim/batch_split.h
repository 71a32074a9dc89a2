// SPDX-License-Identifier: Apache-2.0
#pragma once
// How many samples each device trains on where devices differ.
#include <cstdint>
#include <string>
#include <vector>

#include "sim/prediction.h"

namespace tandem::sim {

/// `total` in whole parts in proportion to `speeds` > 0, at least 1 each: the largest remainders get what
/// whole parts leave (Hamilton's method), of equal ones the first. Requires total >= number of speeds.
std::vector<int64_t> in_proportion(const std::vector<double>& speeds, int64_t total);

/// Samples in one pass of each device of the cluster, the job's batch in the mean: with BatchSplit::speed in
/// proportion to the rate that each has alone at the job's batch, with data at hand and without noise. Cost:
/// a simulation of one device for each sort of devices. Throws InputError where the scheme needs equal
/// batches.
std::vector<int64_t> split_batches(const Prediction& prediction, const Cluster& cluster);

/// "46 samples on each v100-pcie, 18 on each p100-pcie", by the parts that split_batches() gave.
std::string split_text(const Prediction& prediction, const Cluster& cluster,
                       const std::vector<int64_t>& samples);

}  // namespace tandem::sim
