// SPDX-License-Identifier: Apache-2.0
#pragma once
// BoundProgram in, Trace out. `events` is the reference; `sweep` and `folded` are optimisations proven equal
// by tests. Any thread may call; a BoundProgram is only read.
#include "sim/bound/bound_program.h"
#include "sim/evaluate/trace.h"

namespace tandem::sim {

/// Sweep where allowed (folded when nothing differs between instances), else events; says why in
/// Trace::reason.
Trace evaluate(const BoundProgram& plan, const EvaluateOptions& options);

}  // namespace tandem::sim
