// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which gradients travel together in frameworks that decide it as they go: by when they are ready.
#include <cstdint>
#include <vector>

#include "schemes/setup/scheme.h"
#include "sim/bound/bound_program.h"

namespace tandem::sim {

/// True when the scheme's buckets follow from times rather than from its own rule.
inline bool gathers(const Overheads& o) { return o.cycle.ps > 0 || o.merge; }

/// Does what the next forward needs first go first?
bool by_need(const ResolvedScheme& scheme);
/// When the ops of a step end, in seconds after its begin: [role][op] of the first instance. Empty: as the
/// compute lane of worker 0 has them, which waits for nothing but what the middle of a pass exchanges.
using StepEnds = std::vector<std::vector<double>>;

/// Workload::order for buckets of the plan of the same job without one. Where stages divide the model each
/// orders its own, and `ends` are needed. Whenever less than `credit` bytes are
/// under way, or nothing, of the gradients that are ready those of the layers nearest to the input go next
/// (Jayarajan et al. 2019, P3; Peng et al. 2019, ByteScheduler, with its credit), and the link takes them one
/// after the other. Backward begins with an idle link, since forward needs all that was summed. Pushes to
/// servers are priced as if all workers push the same at once. O(ops + buckets^2 + messages of an iteration).
std::vector<uint32_t> order_by_need(const BoundProgram& plan, Bytes credit, const StepEnds& ends = {});

/// Elements of each bucket for Workload::buckets. `fine`: the plan of the same job with a bucket per tensor.
/// A coordinator that looks every `cycle` (Horovod: HOROVOD_CYCLE_TIME, docs/tensor-fusion.rst) takes all
/// that got ready since it last did, at most `most` bytes at once; its last look comes half a cycle after the
/// last gradient, as it does on average. `merge`: a gradient waits for the next one where its own reduction
/// could not start before that is ready, or would save less time than a start-up (Shi et al., MG-WFBP,
/// INFOCOM 2019, algorithm 1), with the start-up and rate that `fine` gives its reductions. Stages do
/// so apart, and `ends` are needed. O(ops).
std::vector<int64_t> gather(const BoundProgram& fine, const Overheads& overheads, Bytes most,
                            const StepEnds& ends = {});

/// How long the last gradients of a step wait for a look every `cycle`: half of one on average, and so long
/// that a step takes a cycle at least, since it needs its own look. `fine` as above. O(ops).
Time last_look(const BoundProgram& fine, Time cycle, const StepEnds& ends = {});

}  // namespace tandem::sim
