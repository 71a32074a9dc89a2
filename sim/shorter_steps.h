// SPDX-License-Identifier: Apache-2.0
#pragma once
// Steps of a split model with that many micro-batches that not every execution can be simulated. Once a
// pipeline is full each further micro-batch takes the same time, whatever its messages wait for each other.
// So two steps of fewer micro-batches are simulated, and all that they take is extended in a straight line.
#include <cstdint>
#include <optional>

#include "schemes/setup/scheme.h"
#include "sim/evaluate/trace.h"

namespace tandem::sim {

/// Micro-batches of the two steps that stand for one of `all`.
struct ShorterSteps {
  int64_t few = 0, more = 0, all = 0;
  /// (all - more) / (more - few)
  double beyond() const { return static_cast<double>(all - more) / static_cast<double>(more - few); }
};

/// For a step of `micro_batches`, where about `most_executions` are to be simulated in an iteration. Whole
/// multiples of the stages, as interleaved schedules need, `few` at least twice as many: the pipeline is then
/// full. Null: the program has no more executions than that, has no stages, or too many executions even so.
std::optional<ShorterSteps> shorter_steps(const Program& program, int64_t micro_batches,
                                          int64_t most_executions);

/// The scheme with another number of micro-batches.
ResolvedScheme with_micro_batches(const ResolvedScheme& scheme, int64_t micro_batches);

/// Times and bytes of a step of all micro-batches, from those of few and more. The same iterations of the
/// same program but for them. What was simulated (`events`) adds up; spans are those of `more`.
Trace extended(const Trace& few, const Trace& more, const ShorterSteps& steps);

}  // namespace tandem::sim
