// SPDX-License-Identifier: Apache-2.0
#pragma once
// A device's costs other than kernels: copies by each path of its backend, and launches.
#include "calibration/fit/machine_fit.h"
#include "exec/device/backend.h"

namespace tandem::app {

/// Appends copies from 1 KiB on, in factors of four, to `m.copy` and sets `m.launch`. Also between two
/// devices if the backend has two; a synchronous backend computes in the host's memory and has one path and
/// no launches. In seconds. Throws DeviceError. Copies reach 64 MiB within ordinary memory, else `largest`
/// bytes, which should far exceed the caches.
void measure_device(const Backend& backend, Measurements& m, int64_t largest = int64_t{1} << 30);

}  // namespace tandem::app
