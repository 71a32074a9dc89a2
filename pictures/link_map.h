// SPDX-License-Identifier: Apache-2.0
#pragma once
// How busy every link of a machine was, over the drawing of its topology.
#include <string>
#include <vector>

#include "pictures/gnuplot.h"
#include "schemes/report/report.h"
#include "topologies/system.h"

namespace tandem::pictures {

/// One node of `system` (pictures/system_drawing.h), each cable as two lanes (traffic keeps right)
/// coloured by the use of its direction: of the busiest where the drawing stands for several nodes or parts.
/// Below it all links that were used, by kind. Throws InputError when the report names no link of the system.
Pictures draw_link_map(const Report& report, const System& system, const std::string& base);

/// The system that the report was made for, by its name and what was set. Throws InputError when it is not a
/// stock system: then its file must be named.
System system_of(const Report& report, const std::string& name_or_file);

}  // namespace tandem::pictures
