// SPDX-License-Identifier: Apache-2.0
#pragma once
// Data that are made, not read: tasks on which batch size and staleness tell.
#include <string>
#include <vector>

#include "base/options.h"
#include "exec/data/dataset.h"

namespace tandem::exec {

/// Classes by a teacher, with wrong labels among them. Input i is normal with a standard deviation of (i +
/// 1)^-decay, so that gradients differ by so much between directions; the class is that of the largest of
/// `classes` linear functions of the inputs over their deviations, drawn once, or with probability `noise`
/// any class. `test`: samples of its own. A pure function of the options. O(samples x inputs x classes).
Dataset teacher_data(const Options& options, bool test);
const std::vector<OptionSpec>& teacher_options();

}  // namespace tandem::exec
