// SPDX-License-Identifier: Apache-2.0
#pragma once
// The Program of a model that a grid of devices divides: each stage of the pipeline is a role, whose
// instances are all devices that hold it.
#include "schemes/setup/scheme.h"
#include "schemes/step/grid_split.h"

namespace tandem::schemes {

/// Throws InputError where the model cannot be cut so. O(ops).
Program split_program(const Workload& work, const GridSplit& split);

}  // namespace tandem::schemes
