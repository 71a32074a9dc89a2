// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which device owns which part of a bucket. Internal to exec.
#include <cstdint>
#include <vector>

#include "exec/comm/store.h"
#include "exec/layout/packed_layout.h"
#include "exec/layout/stages.h"
#include "schemes/program/program.h"

namespace tandem::exec {

/// Position of a device in one of a collective's groups, counted through all roles.
struct GroupMember {
  uint32_t group = 0, rank = 0, ranks = 1, local = 1;
};
GroupMember member_of(const Program& program, const Stages& stages, const Collective& collective,
                      uint32_t device);

/// [bucket]: the collective that scatters its gradients; -1: none.
std::vector<int32_t> scattering_collectives(const Program& program);

/// The part of a bucket that a member of a reduce-scatter among `ranks` keeps.
Slice part_of(const Bucket& bucket, uint32_t rank, uint32_t ranks);

/// The part of the bucket that a device keeps; all of it if nothing scatters its gradients. `scattering`: as
/// above.
Slice share_of(const Program& program, const Stages& stages, const std::vector<int32_t>& scattering,
               uint32_t key, uint32_t device);

/// Parts of its flat vector for which the device keeps the optimiser's state, one after another: those that
/// it updates if devices divide the state, else all.
PackedLayout kept_state(const Program& program, const Stages& stages, uint32_t device);

/// A device's memory for its flat vector of parameters, or of gradients.
struct Held {
  /// The permanent part, from the start, one after another: everything, or only the device's shares of
  /// divided buckets. Updates work there.
  PackedLayout kept;
  /// Where passes find parameters and leave gradients: there too, except that a bucket held whole only
  /// temporarily is in its buffer (exec/layout/gather_buffers.h).
  PackedLayout passes;
  int64_t elements = 0;  ///< of the memory
  int64_t shares = 0;    ///< of these the device's own, in `kept`
  int64_t rooms() const { return elements - kept.elements(); }
};
/// Parameters. Offloaded ones have no permanent part.
Held held_parameters(const Program& program, const Stages& stages, uint32_t device, bool offloaded);
Held held_gradients(const Program& program, const Stages& stages, uint32_t device);
/// Gradients summed over micro-batches, apart from the gradients of the current pass: those without a gather
/// buffer, one after another.
PackedLayout summed_apart(const Program& program, const Stages& stages, uint32_t device);

}  // namespace tandem::exec
