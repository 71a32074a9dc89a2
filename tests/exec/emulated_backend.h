// SPDX-License-Identifier: Apache-2.0
#pragma once
// The CUDA plugin's kernels compiled as C++, as a backend: where no GPU is, the conformance suite runs on it.
//
#include "exec/device/backend.h"

namespace tandem::tests {

const Backend& emulated_backend();
/// The same with attention in fp32 by products, in slices as large as on a GPU, of 512 KiB or of 16 KiB.
enum class Slices : uint8_t { few, some, many };
const Backend& emulated_products(Slices slices);
/// The same by tiles that tensor cores multiply in tf32, where heads fit them.
const Backend& emulated_tensor_cores();
/// The loss scales of the iterations of the last run in which this instance took part.
std::vector<float> emulated_loss_scales(uint32_t instance);
/// So often all gradients of a step have been looked through, on all devices.
int64_t emulated_judged();
/// So often has a call read a copy of a parameter, which must be what the parameter is: on all devices.
int64_t emulated_copies();

}  // namespace tandem::tests
