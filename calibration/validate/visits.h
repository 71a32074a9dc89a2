// SPDX-License-Identifier: Apache-2.0
#pragma once
// Measurements that calibration/gpu_visit.py collected on machines with GPUs.
#include <string>

namespace tandem::calibration {

/// calibration/data/visits as a section of VALIDATION.md: samples per second of the executor and of PyTorch,
/// and the kernels (kernel_efficiency.h) of the profile with a visit's name. If a case was run with several
/// versions of the kernels, the last in the file counts. Throws InputError.
std::string visits_markdown();

}  // namespace tandem::calibration
