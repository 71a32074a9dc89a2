// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ways in which cuDNN would compute a graph, and running one of them. Internal to the plugin.
#include <optional>
#include <utility>
#include <vector>

#include "exec/device/cuda/cudnn_graph.h"
#include "exec/device/cuda/session.h"

namespace tandem::exec::cuda {

/// Where cuDNN's list of proposals has a configuration: the same in every process on such a GPU.
struct Origin {
  cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
  std::size_t index = 0;
  bool operator==(const Origin&) const = default;
};

struct Plan {
  Descriptor plan;
  Origin origin;
  int64_t workspace = 0;  ///< bytes, at most those of Libraries
};

/// At most so many, best estimate first, or the one that is known to be the fastest. Left out is what depends
/// on timing, rounds more than `libraries.precision` says or wants too much workspace. Slow: some engines
/// are compiled for the geometry.
std::vector<Plan> candidates(const Descriptor& graph, const std::optional<Origin>& known, std::size_t most,
                             const Libraries& libraries);

/// Enqueues it; names and places of all tensors that are not virtual, by-value ones in host memory.
cudnnStatus_t run_plan(const Plan& plan, const Libraries& libraries,
                       const std::vector<std::pair<int64_t, void*>>& tensors);

}  // namespace tandem::exec::cuda
