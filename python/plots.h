// SPDX-License-Identifier: Apache-2.0
#pragma once
// tandem.plot: the pictures of `tandem plot` as values that a notebook shows.
#include <nanobind/nanobind.h>

#include "base/rooms.h"

namespace tandem::python {

/// Adds the function, and the classes of what it returns.
void bind_plot(nanobind::module_& module);

}  // namespace tandem::python
