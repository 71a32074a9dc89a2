// SPDX-License-Identifier: Apache-2.0
#pragma once
// Failures of the machine that a question is about: what a checkpoint of its model costs, and what failures
// leave of the rate. Functions of a Report and of the options; the simulator knows nothing of it.
#include <cstdint>
#include <optional>
#include <vector>

#include "answers/question.h"
#include "schemes/report.h"

namespace tandem::answers {

/// What a checkpoint of the question's model holds: learned weights as the optimiser updates them, in fp32
/// unless there are only weights in half precision, and the optimiser's state. O(layers).
Bytes checkpoint_bytes(const Question& question);
/// Seconds in which so many devices write it to the shared storage, or to the disks of the nodes over which
/// one copy of the state is spread. Throws InputError where the system has neither. Cost: one compilation.
double checkpoint_seconds(const Question& question, int64_t devices);

/// Fills report.goodput, where the report fits. Where failed nodes are away for a while it also predicts the
/// rate with fewer of them. Throws InputError as checkpoint_seconds() does.
void add_goodput(const Question& question, const Failures& failures, Report& report);

}  // namespace tandem::answers
