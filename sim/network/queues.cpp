// SPDX-License-Identifier: Apache-2.0
#include "sim/network/queues.h"

namespace tandem::sim {

int64_t sharing_pairs(const Program& program) {
  const int64_t workers = program.roles[0].mesh.size();
  const bool together = std::any_of(program.stores.begin(), program.stores.end(), [&](const Store& s) {
    return 2 * int64_t{s.quorum} * s.shares > workers && s.slack == 0;
  });
  return together ? kLockStepPairs : kSharingPairs;
}

bool serves_in_turn(const Program& program) {
  const int64_t most = sharing_pairs(program);
  return std::any_of(program.channels.begin(), program.channels.end(), [&](const Channel& c) {
    return c.address == Address::shards && program.roles[c.from_role].mesh.size() *
                                                   holders(c, 0, program.roles[c.to_role].mesh.size()).count >
                                               most;
  });
}

}  // namespace tandem::sim
