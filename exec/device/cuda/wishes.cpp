// SPDX-License-Identifier: Apache-2.0
// Which operands products and convolutions would rather find as copies.
#include "exec/device/backend.h"
#include "exec/device/cuda/fp8.h"
#include "exec/device/cuda/half.h"

namespace tandem::exec::cuda {

CopyWish wants_copies(const Call& call, Precision precision) {
  const bool multiplies = call.function == Function::gemm || call.function == Function::conv ||
                          call.function == Function::conv_backward_data ||
                          call.function == Function::conv_backward_weights;
  CopyWish out;
  if (!multiplies || element_bytes(precision) == 4) return out;
  if (precision == Precision::fp8 && multiplies_fp8(call)) {
    const bool weight = !call.half(2) && (call.gradients >> 2 & 1U) == 0, lies = call.shape[4] == 0;
    if (weight) out = {0, 1U << 2, call.shape[lies ? 2 : 1], call.shape[lies ? 1 : 2]};
    return out;
  }
  for (std::size_t k = 1; k < call.operands.size(); ++k) {
    if (!call.half(k) && (k < 3 || call.half(0))) out.half |= 1U << k;
  }
  return out;
}

}  // namespace tandem::exec::cuda
