// SPDX-License-Identifier: Apache-2.0
#pragma once
// Program x System x costs -> BoundProgram.
#include <optional>
#include <string>
#include <vector>

#include "sim/bound/bound_program.h"
#include "sim/cost/costs.h"

namespace tandem::sim {

/// What the binding knows beyond the BoundProgram, for the Report.
struct Bound {
  BoundProgram plan;
  std::optional<Disturbance> measured;  ///< what makes steps differ on a machine that was measured
  CostError error;                      ///< of the compute costs used
  std::vector<std::string> extrapolates;
  std::vector<IncastRound> incast;
  /// Of devices with a power limit, by their number in the system: CostError::limited.
  std::map<int32_t, double> limited_speeds;
  /// Seconds of one iteration's compute on worker 0 per (kernel kind, pass), to name the bottleneck.
  double by_kind[kKernelKinds][kPasses] = {};
  double slowed_seconds = 0;  ///< what simultaneous collectives add to these
};

/// Which instances are priced.
enum class Priced : uint8_t {
  all,    ///< each that may differ from others
  first,  ///< of each role the first, which stands for all: where only worker 0 counts
};

/// The plan's messages price on first use; see CostInput for what must outlive the plan.
Bound bind(const CostInput& input, Priced priced = Priced::all);

}  // namespace tandem::sim
