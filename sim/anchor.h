// SPDX-License-Identifier: Apache-2.0
#pragma once
// How much faster or slower kernels are than priced, judged by one measured rate.
#include <string>
#include <vector>

#include "sim/simulation.h"

namespace tandem::sim {

struct AnchorFit {
  double scale = 1;  ///< of compute costs
  bool met = false;  ///< false without an anchor, too
};

/// The scale with which the prediction meets its anchor, which may have been measured with another batch,
/// scheme or system than its own, and never at other speeds. `simulation`: of the prediction. An anchor that
/// no scale meets adds a note. Cost: some evaluations where it has to be fitted.
AnchorFit fit_anchor(const Request& prediction, const Simulation& simulation,
                     std::vector<std::string>& notes);

}  // namespace tandem::sim
