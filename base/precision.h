// SPDX-License-Identifier: Apache-2.0
#pragma once
// Number formats. Floor 0, because models (bytes), topologies (peak rates) and schemes all speak of them.
#include <array>
#include <cstdint>
#include <string_view>

#include "base/error.h"

namespace tandem::base {

/// The format that the bulk of the arithmetic runs in. tf32 computes in TF32 and stores FP32.
/// fp16, bf16 and fp8 are "mixed": activations in 2 bytes (fp8 GEMMs read 1, counted as 2 here),
/// master parameters, gradients to communicate and optimiser state in 4 unless a scheme says otherwise.
enum class Precision : uint8_t { fp32, tf32, fp16, bf16, fp8 };
inline constexpr int kPrecisions = 5;

std::string_view name(Precision p);
/// Throws InputError naming the valid ones.
Precision parse_precision(std::string_view text, const Place& place = {});
/// Bytes of one stored activation element: 4 for fp32 and tf32, else 2.
constexpr int element_bytes(Precision p) { return p == Precision::fp32 || p == Precision::tf32 ? 4 : 2; }

}  // namespace tandem::base
