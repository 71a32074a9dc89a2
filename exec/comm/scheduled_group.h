// SPDX-License-Identifier: Apache-2.0
#pragma once
// The schedules of schemes/collectives made of a device library's messages (NCCL's send and receive).
//
#include <memory>

#include "exec/device/backend.h"
#include "schemes/collectives/collectives.h"

namespace tandem::exec {

/// A group whose run() walks `schedule`: a step is one exchange() of `links`, whose group it is, then sums on
/// the device, in the schedule's order; so results are those of GroupCollective, to the bit. What is to be
/// added, or would lie upon what the rank sends, arrives in its own memory, at most as much as a rank
/// takes in a step, allocated when a first or larger run() needs it. estimate() is 0.
std::unique_ptr<DeviceGroup> scheduled_group(std::unique_ptr<DeviceGroup> links, Schedule schedule);

}  // namespace tandem::exec
