// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which gradients travel together in frameworks that decide it as they go: by when they are ready.
#include <cstdint>
#include <vector>

#include "schemes/scheme.h"
#include "sim/plan/plan.h"

namespace tandem::sim {

/// True when the scheme's buckets follow from times rather than from its own rule.
inline bool gathers(const Overheads& o) { return o.cycle.ps > 0 || o.merge; }

/// Elements of each bucket for Workload::buckets. `fine`: the plan of the same job with a bucket per tensor.
/// A coordinator that looks every `cycle` (Horovod: HOROVOD_CYCLE_TIME, docs/tensor-fusion.rst) takes all
/// that got ready since it last did, at most `most` bytes at once; its last look comes half a cycle after the
/// last gradient, as it does in the mean. `merge`: a gradient waits for the next one where its own reduction
/// could not start before that is ready, or would save less time than a start-up (Shi et al., MG-WFBP,
/// INFOCOM 2019, algorithm 1), with the start-up and rate that `fine` gives its reductions. O(ops).
std::vector<int64_t> gather(const Plan& fine, const Overheads& overheads, Bytes most);

}  // namespace tandem::sim
