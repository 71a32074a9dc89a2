// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a system's file says of each kind of nodes. Internal to topologies.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"

namespace tandem::topologies {

/// What a kind of nodes may state, each instead of the same key outside "node_kinds".
inline constexpr std::string_view kKeysOfNodes[] = {"devices", "place",       "vertices",
                                                    "links",   "peer_access", "host"};
/// The descriptions of the nodes in a document by kind: that outside "node_kinds", called "", then each
/// kind's with what it leaves to the first. Throws InputError.
std::vector<std::pair<std::string, Json>> node_specs(const Json& document);

}  // namespace tandem::topologies
