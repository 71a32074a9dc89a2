// SPDX-License-Identifier: Apache-2.0
#include "exec/run/copy_route.h"

#include <fmt/format.h>

namespace tandem::exec {

std::string route_text(const RunPlan& plan) {
  const Execution& e = plan.execution();
  auto* const reaches = e.backend->reaches;
  if (reaches == nullptr || plan.here() < 2) return "";
  if (e.route != PeerRoute::automatic) return std::string(name(e.route));
  bool all = true, any = false;
  for (uint32_t a = 0; a < plan.here(); ++a) {
    for (uint32_t b = 0; b < plan.here(); ++b) {
      if (a == b) continue;
      const bool direct =
          reaches(plan.device_index(plan.first_here() + a), plan.device_index(plan.first_here() + b));
      all = all && direct;
      any = any || direct;
    }
  }
  return all ? "peer" : any ? "peer where devices reach each other, else staged" : "staged";
}

void check_route(const RunPlan& plan) {
  const Execution& e = plan.execution();
  auto* const reaches = e.backend->reaches;
  if (e.route == PeerRoute::automatic) return;
  if (reaches == nullptr)
    throw InputError(
        fmt::format("route {}: workers on backend {} have the same memory, so there is no choice",
                    name(e.route), e.backend->name));
  const uint32_t first = plan.first_here(), end = first + plan.here();
  for (uint32_t a = first; e.route == PeerRoute::peer && a < end; ++a) {
    for (uint32_t b = first; b < end; ++b) {
      if (a != b && !reaches(plan.device_index(a), plan.device_index(b)))
        throw InputError(fmt::format(
            "route peer: the device of worker {} does not reach the memory of worker {}'s (tandem doctor "
            "shows who reaches whom); auto and staged go through host memory",
            a, b));
    }
  }
}

}  // namespace tandem::exec
