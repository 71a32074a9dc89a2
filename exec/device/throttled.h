// SPDX-License-Identifier: Apache-2.0
#pragma once
// A slower device, emulated on a faster one.
#include <memory>

#include "exec/device/backend.h"

namespace tandem::exec {

/// The session with calls that take `factor` (>= 1) times as long: after each the thread that launched it
/// computes nothing for the rest, on its processor. Counted in processor time of that thread, so that what
/// other programs take is not multiplied. Of backends whose launches return when the call is done. Copies and
/// sums between workers are as they were.
std::unique_ptr<DeviceSession> throttled(std::unique_ptr<DeviceSession> session, double factor);

}  // namespace tandem::exec
