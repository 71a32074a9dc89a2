// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whether a model fits its devices, how many hold it, and what would make it fit.
#include <functional>
#include <vector>

#include "schemes/report/report.h"
#include "schemes/setup/remedy.h"
#include "sim/memory/memory.h"
#include "sim/request.h"

namespace tandem::sim {

class Simulation;

/// What devices hold of `program`, which `simulation` compiled for the cluster: by role, and where devices or
/// their batches differ by kind of devices, called "worker on p100-pcie"; of one kind of devices none behind
/// one that needs more than `most`. Cost: a walk for each.
std::vector<RoleMemory> memory_of(const Request& prediction, const Simulation& simulation,
                                  const Cluster& cluster, const Program& program, Bytes most = kAnyMemory);

/// What one of `devices` devices of the prediction's system must hold, of unlike ones that with least to
/// spare, whether the system has that many or not. Throws InputError where the scheme cannot run on that
/// many. Where a device needs more than `most` it may be any that does, and no other is looked at. Cost: one
/// compilation.
MemoryUse memory_on(const Request& prediction, int64_t devices, Bytes most = kAnyMemory);

/// What a forward pass over the batch leaves for its backward pass on a device of the first role, whatever
/// else that holds. Throws as memory_on(). Cost: one compilation.
Bytes kept_by_forward(const Request& prediction);

/// The smallest number of devices that hold the model under the prediction's scheme, which may be more than
/// the system has; 0 when no number does. Takes for granted that memory does not grow from two devices on.
/// Cost: one compilation where one device holds it, else some twenty.
int64_t fewest_devices(const Request& prediction);
/// With the memory that that many devices need, which throws as memory_on() does.
int64_t fewest_devices(const Request& prediction, const std::function<MemoryUse(int64_t)>& memory);

/// For a prediction that does not fit and needs `needs`: which batch, scheme, recomputation, offloading,
/// number of devices and device would fit, each but the last tried; what costs least time first. `sharded` is
/// the scheme to propose where it takes less memory than the prediction's own. `first`: what fits too, after
/// the batch. A larger device is taken to need what this one does. Cost: some forty compilations.
std::vector<Remedy> remedies(const Request& prediction, const MemoryUse& needs, const ResolvedScheme& sharded,
                             std::vector<Remedy> first = {});

}  // namespace tandem::sim
