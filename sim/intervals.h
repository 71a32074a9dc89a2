// SPDX-License-Identifier: Apache-2.0
#pragma once
// How sure a prediction is: what its errors come from, and the interval that they leave.
#include <vector>

#include "schemes/report.h"
#include "sim/cost/costs.h"
#include "sim/prediction.h"

namespace tandem::sim {

/// Relative standard errors of the samples/s by source, from the time shares of `r`; two predictions share
/// those that have the same name. `costs`: of the compute costs without an anchor.
std::vector<ErrorSource> error_sources(const Report& r, const Prediction& p, const CostError& costs);

/// System::staged_spread() where devices of the job reach each other through the memory of their host and
/// nothing measured corrects that; else 0.
double host_spread(const Prediction& p);

/// The 90 % interval of a rate: errors of different sources are independent, and multiply it.
Report::Interval interval(double rate, const std::vector<ErrorSource>& errors);

}  // namespace tandem::sim
