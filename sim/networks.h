// SPDX-License-Identifier: Apache-2.0
#pragma once
// Several networks trained alternately on the same devices and samples: a generator and its discriminator.
#include <vector>

#include "schemes/report/report.h"
#include "sim/request.h"

namespace tandem::sim {

/// One of several networks, by itself.
struct Network {
  Request prediction;
  double passes = 1;  ///< of each sample of the first network
};

/// The first network, which alone loads samples, then Request::then. Throws InputError with an anchor or
/// with other jobs.
std::vector<Network> networks_of(const Request& prediction);

/// Adds to a report what the networks' own, `each` in the same order, come to. Rates are in samples of the
/// first network: each passes through the others as often as they say, so that the times of all add up, and
/// so do shares of time and errors. Timeline, evaluator and staleness are those of the first.
void add_networks(Report& report, const std::vector<Network>& networks, const std::vector<Report>& each);

/// What a device holds of all networks, from what it holds of each by itself: parameters, gradients,
/// optimiser state and buffers of all, and activations of one at a time.
MemoryUse memory_in_turn(const std::vector<MemoryUse>& networks);

}  // namespace tandem::sim
