// SPDX-License-Identifier: Apache-2.0
#pragma once
// One node of a system as boxes and lines: what `show system` and the map of link use draw.
#include <string>

#include "pictures/drawing.h"
#include "pictures/gnuplot.h"
#include "topologies/system.h"

namespace tandem::pictures {

/// Rows from the bottom: network; NICs and memory; CPUs; PCIe switches by their hops from a CPU; devices;
/// switches of the fabric. Within the rows Graphviz places them. Throws InputError when Graphviz is absent,
/// or for a node that is too large to draw though equal parts are left out.
Drawing drawing_of(const System& system);

/// The picture of the system, its cables coloured by kind. Throws as drawing_of().
Gnuplot draw_system(const System& system);

}  // namespace tandem::pictures
