// SPDX-License-Identifier: Apache-2.0
#pragma once
// Max-plus evaluation of static programs: an op at a time, for all instances at once. Any thread may call; a
// BoundProgram is only read.
#include <optional>
#include <vector>

#include "sim/bound/bound_program.h"
#include "sim/evaluate/contention.h"
#include "sim/evaluate/trace.h"

namespace tandem::sim {

/// Requires is_static(program) (throws ProgramError) and no two transfers of different groups or lanes that
/// share a resource at overlapping times; find_contention() tells (sim/evaluate/contention.h).
Trace run_sweep(const BoundProgram& plan, const EvaluateOptions& options);
/// The same where copies alone can share too little (sim/evaluate/shared_copies.h); nothing where that cannot
/// be told without events.
std::optional<Trace> run_sweep(const BoundProgram& plan, const EvaluateOptions& options,
                               const std::vector<ContendingCopies>& copies);
/// The same over one row per role, where all instances take equal times: requires what_differs() to be ""
/// (sim/evaluate/fold.h).
Trace run_folded(const BoundProgram& plan, const EvaluateOptions& options);

}  // namespace tandem::sim
