// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a training job leaves in the memory of its nodes' hosts.
#include <vector>

#include "schemes/report/report.h"
#include "schemes/setup/scheme.h"
#include "topologies/system.h"

namespace tandem::sim {

/// Of the node that must hold most, besides the least that a host of the system has: what its devices offload
/// (MemoryUse::host), the batches that are on their way to them, the parameters, gradients and state of
/// servers on its processors with what its workers exchange with them, and kOwnMemory. Devices that are
/// processors have all that they hold there. `roles`: of `program` on `cluster`. O(devices), or O(1) where
/// all hold the same.
HostMemory host_memory(const System& system, const Cluster& cluster, const Workload& work,
                       const Program& program, const std::vector<RoleMemory>& roles);

/// Something of the model lies there: whether it fits is worth knowing.
bool uses_host(const Program& program, const std::vector<RoleMemory>& roles);

/// Of the system and the training processes, assumed: of small hosts a sixteenth.
inline constexpr Bytes kOwnMemory{int64_t{4} << 30};

}  // namespace tandem::sim
