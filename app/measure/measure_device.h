// SPDX-License-Identifier: Apache-2.0
#pragma once
// What one device takes besides kernels: copies by each way that its backend has, launches.
#include "calibration/fit/machine_fit.h"
#include "exec/device/backend.h"

namespace tandem::app {

/// Appends copies from 1 KiB on, by fours, to `m.copy` and sets `m.launch`. Between two devices where the
/// backend has two units; a backend that is not asynchronous computes in the host's memory: one way, and no
/// launches. Seconds. Throws DeviceError. Copies reach 64 MiB within ordinary memory, else `largest` bytes:
/// far more than a cache holds.
void measure_device(const Backend& backend, Measurements& m, int64_t largest = int64_t{1} << 30);

}  // namespace tandem::app
