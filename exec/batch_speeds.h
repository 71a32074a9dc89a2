// SPDX-License-Identifier: Apache-2.0
#pragma once
// Batches in proportion to what the workers' devices are measured to do.
#include <cstdint>
#include <vector>

#include "exec/request/execution.h"

namespace tandem::exec {

/// Job::batches of an execution that begins with equal ones: a few steps of it are run, and each worker's
/// share follows the rate at which it computes, without what it waits and communicates (in_proportion). Of
/// several processes all get the same. What is measured differs from call to call. Throws as execute() does,
/// and InputError where the workers need equal batches.
std::vector<int64_t> batches_by_speed(const Execution& execution);

}  // namespace tandem::exec
