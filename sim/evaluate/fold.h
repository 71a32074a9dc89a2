// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a plan's instances have in common. Any thread may call; a BoundProgram is only read.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sim/bound/bound_program.h"

namespace tandem::sim {

/// The transfers that one run of op `op` of role `role` makes: (index into BoundProgram::transfers, how
/// often), once per instance or per group of a collective, in increasing index. Empty for other ops.
std::vector<std::pair<int32_t, int64_t>> transfers_of(const BoundProgram& plan, uint32_t role, uint32_t op);
/// The same, the op being at hand, as it is stored.
std::vector<std::pair<int32_t, int64_t>> transfers_of(const BoundProgram& plan, uint32_t role, uint32_t index,
                                                      const Op& op);

/// How many transfers that is, all together.
int64_t units_of(const BoundProgram& plan, uint32_t role, const Op& op);

/// "" when all instances of every role take equal times, else what differs. Such a plan folds to one row per
/// role: without noise, what is equal before an op is equal after it.
std::string what_differs(const BoundProgram& plan);

}  // namespace tandem::sim
