// SPDX-License-Identifier: Apache-2.0
#pragma once
// How sure a prediction is: what its errors come from, and the interval that they leave.
#include <string>
#include <vector>

#include "schemes/report/report.h"
#include "sim/bound/placement.h"
#include "sim/cost/costs.h"
#include "sim/request.h"
#include "sim/simulation.h"

namespace tandem::sim {

/// What transfers that take longer or less long than priced make of the rate: standard errors of its
/// logarithm, below and above. What compute hides counts as far as it would show then.
struct LinkError {
  double below = 0, above = 0;
};

/// From the rates with all transfers as much slower and faster as one in twenty is (Transfer::spread);
/// the faster ones only where 2 % of the time are exposed, else these count in full. Simulations of more than
/// three million events are not repeated: there the exposed share alone counts.
LinkError link_error(const Report& r, const Request& p, const UsedDevices& used, const Simulation& simulation,
                     const Simulated& run);

/// Relative standard errors of the samples/s by source, from the time shares of `r`; two predictions share
/// those that have the same name. `bound`: of the job, without an anchor; `unmet`: unmet_kinds() of it, none
/// with an anchor.
std::vector<ErrorSource> error_sources(const Report& r, const Request& p, const UsedDevices& used,
                                       const std::vector<std::string>& unmet, const Bound& bound,
                                       const LinkError& links);

/// System::staged_spread() where devices of the job reach each other through the memory of their host and
/// nothing measured corrects that; else 0.
double host_spread(const Request& p, const Cluster& cluster);

/// The 90 % interval of a rate: errors of different sources are independent, and multiply it.
Report::Interval interval(double rate, const std::vector<ErrorSource>& errors);

}  // namespace tandem::sim
