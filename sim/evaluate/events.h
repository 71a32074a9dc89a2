// SPDX-License-Identifier: Apache-2.0
#pragma once
// The reference evaluator: every op and every transfer is an event. Any thread may call; a BoundProgram is
// only read.
#include "sim/bound/bound_program.h"
#include "sim/evaluate/trace.h"

namespace tandem::sim {

/// Time O(events x log of those waiting), and for each transfer the cost of sharing links with others under
/// way. Throws ProgramError where a program waits for ever.
Trace run_events(const BoundProgram& plan, const EvaluateOptions& options);

}  // namespace tandem::sim
