// SPDX-License-Identifier: Apache-2.0
#pragma once
// tandem.Model, tandem.System and tandem.Question: what can be asked about, as values.
#include <nanobind/nanobind.h>

#include "base/rooms.h"

namespace tandem::python {

/// Adds the classes to the module.
void bind_values(nanobind::module_& module);

}  // namespace tandem::python
