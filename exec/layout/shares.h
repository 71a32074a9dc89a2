// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which part of a bucket is whose, where devices divide it. Internal to exec.
#include <cstdint>
#include <vector>

#include "exec/comm/store.h"
#include "exec/layout/packed_layout.h"
#include "exec/layout/stages.h"
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

/// What that leaves a device of the bucket; all of it where nothing scatters its gradients. `scattering`: as
/// above.
Slice share_of(const Program& program, const Stages& stages, const std::vector<int32_t>& scattering,
               uint32_t key, uint32_t device);

/// Parts of its flat vector for which the device keeps the optimiser's state, one behind the other: those
/// that it updates where devices divide the state, else all.
PackedLayout kept_state(const Program& program, const Stages& stages, uint32_t device);

/// A device's memory for its flat vector of parameters, or of gradients.
struct Held {
  /// What stays, from the begin on, one behind the other: all, or of buckets that devices divide the device's
  /// share. Updates work there.
  PackedLayout kept;
  /// Where passes find parameters and leave gradients: there too, but of a bucket that is held whole for a
  /// while only in its room (exec/layout/gather_buffers.h).
  PackedLayout passes;
  int64_t elements = 0;  ///< of the memory
  int64_t shares = 0;    ///< of these the device's own, in `kept`
  int64_t rooms() const { return elements - kept.elements(); }
};
/// Parameters. Of those that are offloaded nothing stays.
Held held_parameters(const Program& program, const Stages& stages, uint32_t device, bool offloaded);
Held held_gradients(const Program& program, const Stages& stages, uint32_t device);
/// Parts of the gradients that are summed over micro-batches as they are made, beside them: those without a
/// room. One behind the other.
PackedLayout summed_apart(const Program& program, const Stages& stages, uint32_t device);

}  // namespace tandem::exec
