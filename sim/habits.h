// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a prediction says of memory, its framework's habits and its recipe taken together.
#include "schemes/setup/memory_habits.h"
#include "sim/request.h"

namespace tandem::sim {

/// How the prediction's framework treats memory: its scheme's habits and what changes them.
MemoryHabits habits_of(const Request& prediction);

}  // namespace tandem::sim
