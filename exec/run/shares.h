// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which part of a bucket is whose, where devices divide it. Internal to exec.
#include <cstdint>
#include <vector>

#include "exec/comm/store.h"
#include "exec/run/stages.h"
#include "schemes/program.h"

namespace tandem::exec {

/// Place of a device in one of a collective's groups, which count through all roles.
struct GroupMember {
  uint32_t group = 0, rank = 0, ranks = 1, local = 1;
};
GroupMember member_of(const Program& program, const Stages& stages, const Collective& collective,
                      uint32_t device);

/// [bucket]: the collective that scatters its gradients; -1: none.
std::vector<int32_t> scattering_collectives(const Program& program);

/// The part of a bucket that one of `ranks` members of a reduce-scatter is left with.
Slice part_of(const Bucket& bucket, uint32_t rank, uint32_t ranks);

/// Parts of its flat vector, without overlap and increasing, for which the device keeps the optimiser's
/// state: those that it updates where devices divide the state, else all.
std::vector<Slice> kept_state(const Program& program, const Stages& stages, uint32_t device);
/// Elements of kept_state() together.
int64_t kept_elements(const std::vector<Slice>& parts);

}  // namespace tandem::exec
