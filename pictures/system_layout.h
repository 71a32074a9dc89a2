// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where the boxes and lines of a system's drawing go.
#include "pictures/drawing.h"

namespace tandem::pictures {

/// Sets what drawing_of() promises of places, sizes and courses. Throws InputError when Graphviz is absent or
/// fails.
void lay_out(Drawing& drawing);

}  // namespace tandem::pictures
