// SPDX-License-Identifier: Apache-2.0
// Everyone sends to one place and gets the result back from it: one rank's (or the host's) links carry p - 1
// buffers each way. What simple parameter servers and early multi-GPU code do.
#include "schemes/collectives/collectives.h"

namespace tandem::schemes {

namespace {

bool supported_by_central(CollKind kind, const GroupShape&) {
  return kind == CollKind::all_reduce || kind == CollKind::broadcast || kind == CollKind::reduce;
}

Schedule schedule_central(CollKind kind, const GroupShape& group) {
  Schedule s;
  s.ranks = group.ranks;
  Step in, out;
  for (uint32_t r = 1; r < s.ranks; ++r) {
    in.moves.push_back({r, 0, 0, 1, true});
    out.moves.push_back({0, r, 0, 1, false});
  }
  if (s.ranks == 1) return s;
  if (kind != CollKind::broadcast) s.steps.push_back(std::move(in));
  if (kind != CollKind::reduce) s.steps.push_back(std::move(out));
  return s;
}

}  // namespace

void register_central(Registry<CollectiveAlgorithm>& registry) {
  registry.add({"central", "everyone to one rank and back: simple, and that rank's links are the limit",
                supported_by_central, schedule_central});
}

}  // namespace tandem::schemes
