// SPDX-License-Identifier: Apache-2.0
#pragma once
// What calibration/gpu_visit.py brought home from machines with GPUs.
#include <string>

namespace tandem::calibration {

/// calibration/data/visits as a section of VALIDATION.md: samples per second of the executor beside
/// PyTorch's, and the kernels (kernel_efficiency.h) of the profile with a visit's name. Where a case was run
/// in several states of the kernels the last in the file counts. Throws InputError.
std::string visits_markdown();

}  // namespace tandem::calibration
