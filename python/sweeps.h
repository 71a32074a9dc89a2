// SPDX-License-Identifier: Apache-2.0
#pragma once
// tandem.sweep: a grid of predictions, here or by the workers of an executor.
#include <nanobind/nanobind.h>

#include "base/rooms.h"

namespace tandem::python {

/// Adds the function, and the task that it submits.
void bind_sweep(nanobind::module_& module);

}  // namespace tandem::python
