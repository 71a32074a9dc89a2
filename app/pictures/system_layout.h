// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where the boxes and lines of a system's drawing go.
#include "app/pictures/drawing.h"

namespace tandem::app {

/// Sets what drawing_of() promises of places, sizes and courses. Throws InputError when Graphviz is absent or
/// fails.
void lay_out(Drawing& drawing);

}  // namespace tandem::app
