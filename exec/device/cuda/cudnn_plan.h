// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ways in which cuDNN would compute a graph, and running one of them. Internal to the plugin.
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "exec/device/cuda/choices.h"
#include "exec/device/cuda/cudnn_graph.h"
#include "exec/device/cuda/session.h"

namespace tandem::exec::cuda {

/// Where cuDNN's list of proposals has a configuration: the same in every process on such a GPU.
struct Origin {
  cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
  std::size_t index = 0;
  bool operator==(const Origin&) const = default;
};
/// As Choices keeps it; none where it keeps none, or what cuDNN's list has not.
Way way_of(const Origin& origin);
std::optional<Origin> origin_of(const std::optional<Way>& way);
/// The chip and cuDNN's version: what Choices keeps Origins for.
std::string chip_of(const Libraries& libraries);

struct BoundProgram {
  Descriptor plan;
  Origin origin;
  int64_t workspace = 0;  ///< bytes, at most workspace_limit()
  int64_t engine = -1;    ///< cuDNN's number of it
};

/// What computes a convolution in place of cuDNN: a product of cuBLASLt's.
struct ByProduct {
  Prepared run;
  std::string engine;
  int64_t workspace = 0;  ///< bytes
};

/// Plans made so far, by what they compute: shape, function and types.
struct PlanCache {
  struct Made {
    std::optional<BoundProgram> plan;  ///< none: cuDNN has nothing, or a product is faster
    std::string why;                   ///< it has not
    std::optional<ByProduct> product = std::nullopt;
    bool usable() const { return plan || product; }
  };
  std::map<std::vector<int64_t>, Made> made;
};

/// The session's.
PlanCache& plans_of(Libraries& libraries);

/// Why proposals were left out.
struct Refusals {
  int proposed = 0;
  int inadmissible = 0;         ///< depend on timing or round too much
  int too_large = 0;            ///< want more workspace than there may be
  int64_t least_workspace = 0;  ///< of these
  int failed = 0;
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;  ///< of the last that failed
  /// "5 proposals: 3 depend on timing or round more, 2 fail (...)".
  std::string text() const;
};

/// At most that many, best estimate first, or the one that is known to be the fastest. Left out is what
/// depends on timing, rounds more than `libraries.precision` says or wants more workspace than
/// workspace_limit(). Slow: some engines are compiled for the geometry. Throws nothing.
std::vector<BoundProgram> candidates(const Descriptor& graph, const std::optional<Origin>& known,
                                     std::size_t most, const Libraries& libraries, Refusals& refusals);

/// Enqueues it; names and places of all tensors that are not virtual, by-value ones in host memory.
cudnnStatus_t run_plan(const BoundProgram& plan, const Libraries& libraries,
                       const std::vector<std::pair<int64_t, void*>>& tensors);

}  // namespace tandem::exec::cuda
