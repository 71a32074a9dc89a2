// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/link_profile.h"

#include <algorithm>

namespace tandem::sim {

double Library::reported(double seconds, double blocks, const Harness& harness) const {
  const bool together = harness.threads * harness.gpus_per_thread > 1;
  return std::max(seconds, launch * harness.gpus_per_thread) + (together ? (blocks - 1) * block_start : 0) +
         turnaround * harness.threads / std::max(harness.iterations, 1);
}

}  // namespace tandem::sim
