// SPDX-License-Identifier: Apache-2.0
#pragma once
// The prediction that most tests ask for, to be changed where they ask for more.
#include "models/optimizer.h"
#include "sim/simulate.h"

namespace tandem::tests {

/// Trained with momentum in fp32 on synthetic input. Everything is borrowed.
inline Request prediction_of(const Graph& graph, const System& system, const ResolvedScheme& scheme,
                             int64_t devices, int64_t batch = 32) {
  Request p;
  p.job.graph = &graph;
  p.job.scheme = &scheme;
  p.job.batch = batch;
  p.job.optimizer = &optimizer("momentum");
  p.job.input = false;
  p.system = &system;
  p.devices = devices;
  return p;
}

}  // namespace tandem::tests
