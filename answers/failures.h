// SPDX-License-Identifier: Apache-2.0
#pragma once
// Failures of the machine that a question is about: what a checkpoint of its model costs, and what failures
// leave of the rate. Functions of a Report and of the options; the simulator knows nothing of it.
#include <cstdint>
#include <optional>
#include <vector>

#include "answers/question.h"
#include "schemes/report/report.h"

namespace tandem::answers {

/// Bytes of a checkpoint of the question's model: learned weights as the optimiser updates them (fp32 unless
/// there are only half-precision weights) and the optimiser's state. O(layers).
Bytes checkpoint_bytes(const Question& question);
/// Seconds in which `devices` devices write it to the shared storage, or to the disks of the nodes that hold
/// one copy of the state. Throws InputError if the system has neither. Cost: one compilation.
double checkpoint_seconds(const Question& question, int64_t devices);

/// Fills report.goodput if the report fits. If failed nodes stay away for a while it also predicts the rate
/// with fewer nodes. Throws InputError as checkpoint_seconds() does.
void add_goodput(const Question& question, const Failures& failures, Report& report);

}  // namespace tandem::answers
