// SPDX-License-Identifier: Apache-2.0
#pragma once
// What one device must hold.
#include "schemes/report/report.h"
#include "schemes/setup/memory_habits.h"
#include "schemes/setup/scheme.h"
#include "topologies/devices/device.h"

namespace tandem::sim {

inline constexpr Bytes kAnyMemory{INT64_MAX};

/// Memory of the devices of a role, for a step as sim/memory/memory_walk.h goes through it. `total` is what
/// the framework's tensors take at the peak (PyTorch's max_memory_allocated), `reserved` what its allocator
/// holds from the driver for them (max_memory_reserved), `nvidia_smi` that and what no allocator sees: the
/// driver's context with the kernels' code, and NCCL's buffers. nvidia_smi against the memory that the driver
/// offers decides whether it fits; an allocator gives cached segments back before it fails, and so does the
/// model. `activations` is what lies beyond the other parts at the peak: where backward frees them while
/// gradients are made, gradients take their room. Figures of contexts: sim/memory/memory.cpp. `program`: of
/// all devices. `over_step`: RoleMemory::over_step of the role that needs most. Of pipeline stages none
/// behind the first that needs more than `most`; the last one comes second then. O(layers log layers).
std::vector<RoleMemory> memory_by_role(const Workload& work, const Device& device, const Program& program,
                                       const MemoryHabits& habits = {}, Bytes most = kAnyMemory,
                                       bool over_step = false);
/// What a forward pass over `work`'s batch leaves for its backward pass on a device of the first role,
/// whatever else that holds. `program`: of all devices. O(layers).
Bytes kept_by_forward(const Workload& work, const Program& program, const MemoryHabits& habits = {});
/// Of the role whose devices have the least to spare, or lack most.
MemoryUse largest(const std::vector<RoleMemory>& roles);
/// largest() of these.
MemoryUse device_memory(const Workload& work, const Device& device, const Program& program,
                        const MemoryHabits& habits = {});

}  // namespace tandem::sim
