// SPDX-License-Identifier: Apache-2.0
#pragma once
// Program x System x costs -> Plan.
#include <optional>

#include "schemes/scheme.h"
#include "sim/placement.h"
#include "sim/plan.h"
#include "sim/speeds.h"
#include "topologies/system.h"

namespace tandem::sim {

struct BindInput {
  std::shared_ptr<const Program> program;
  const System* system = nullptr;
  Cluster cluster;
  Precision precision = Precision::fp32;
  const Graph* graph = nullptr;
  const Optimizer* optimizer = nullptr;
  Overheads overheads;
  Recipe recipe;
  std::string profile = "stock";  ///< of the kernel costs
  double compute_scale = 1;       ///< of every kernel on the accelerators (the anchor's)
  Speeds speeds;
  bool first_only =
      false;  ///< price each role's first instance, which stands for all: when only worker 0 counts
};

/// What the binding knows beyond the Plan, for the Report.
struct Bound {
  Plan plan;
  std::optional<Disturbance> measured;  ///< what makes steps differ on a machine that was measured
  double compute_error = 0;             ///< relative standard error of the kernel costs used
  std::optional<double> several_error;  ///< what several devices add to it, where that was measured
  std::vector<std::string> extrapolates;
  /// Seconds of one iteration's compute on worker 0 per (kernel kind, pass), to name the bottleneck.
  double by_kind[kKernelKinds][kPasses] = {};
  double slowed_seconds = 0;  ///< what collectives beside them add to these
};

Bound bind(const BindInput& input);

}  // namespace tandem::sim
