// SPDX-License-Identifier: Apache-2.0
#pragma once
// Generated data: tasks whose loss depends on batch size and staleness.
#include <string>
#include <vector>

#include "base/options.h"
#include "exec/data/dataset.h"

namespace tandem::exec {

/// Classes by a teacher, some labels wrong. Input i is normal with standard deviation (i + 1)^-decay, so that
/// the size of gradients differs between directions; the class is that of the largest of `classes` linear
/// functions of the inputs over their deviations, drawn once, or with probability `noise` any class. `test`:
/// separate samples. A pure function of the options. O(samples x inputs x classes).
Dataset teacher_data(const Options& options, bool test);
const std::vector<OptionSpec>& teacher_options();

}  // namespace tandem::exec
