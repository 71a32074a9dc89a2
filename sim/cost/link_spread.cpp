// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/link_spread.h"

#include <algorithm>
#include <cmath>

namespace tandem::sim {

namespace {

/// Of a network of which some figure was not checked against a source. Set with the coverage of rows in view
/// that VALIDATION.md counts as unseen.
constexpr double kRecalledNetwork = 0.4;

}  // namespace

double network_spread(const System& system) {
  const auto& unverified = system.unverified();
  const bool recalled = std::any_of(unverified.begin(), unverified.end(),
                                    [](const std::string& path) { return path.starts_with("network"); });
  return std::hypot(recalled ? kRecalledNetwork : 0, system.communication().real("spread", 0, 0, 3));
}

bool through_host(const System& system, std::span<const VertexId> members) {
  for (std::size_t i = 1; i < members.size(); ++i) {
    if (system.node_of(members[i]) != system.node_of(members[i - 1])) continue;
    if (system.route(members[i - 1], members[i]).staged > 0) return true;
  }
  return false;
}

double link_spread(const System& system, std::span<const VertexId> members, bool measured) {
  const bool several = std::any_of(members.begin(), members.end(), [&](VertexId v) {
    return system.node_of(v) != system.node_of(members.front());
  });
  const double hosts = measured ? 0 : system.staged_spread();
  return std::hypot(kLinkSpread, several ? network_spread(system) : 0,
                    hosts > 0 && through_host(system, members) ? hosts : 0);
}

}  // namespace tandem::sim
