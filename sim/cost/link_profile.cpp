// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/link_profile.h"

#include <algorithm>

namespace tandem::sim {

double Library::reported(double seconds, const Harness& harness) const {
  return std::max(seconds, launch * harness.gpus_per_thread) +
         turnaround * harness.threads / std::max(harness.iterations, 1);
}

}  // namespace tandem::sim
