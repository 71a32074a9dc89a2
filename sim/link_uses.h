// SPDX-License-Identifier: Apache-2.0
#pragma once
// How busy links and the other resources that carry bytes were.
#include <string>
#include <string_view>

#include "schemes/report/report.h"
#include "sim/bound/bound_program.h"
#include "sim/evaluate/trace.h"
#include "topologies/system.h"

namespace tandem::sim {

/// Fills `links`, and `link_groups` where there are more. `nodes`, `kinds`: of the system.
void add_links(Report& report, const BoundProgram& plan, const Trace& trace, int64_t nodes,
               const std::vector<KindOfNode>& kinds = {});

/// The group of a link of several nodes: numbers become "*", but those of what stands within a node.
/// "node12/gpu0>plx3" -> "node*/gpu0>plx3", "leaf3>node4/port7" -> "leaf*>node*/port7",
/// "node3>node4" -> "node*>node*". Of several `kinds` of nodes each has its own groups, with the number of
/// its first node: "node12/gpu0>plx3" -> "node8*/gpu0>plx3".
std::string link_group(std::string_view link, const std::vector<KindOfNode>& kinds = {});

}  // namespace tandem::sim
