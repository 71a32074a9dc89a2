// SPDX-License-Identifier: Apache-2.0
#pragma once
// Convolutions of 1x1 as products.
#include <optional>

#include "base/precision.h"
#include "exec/device/cuda/kernel.h"

namespace tandem::exec::cuda {

/// Where a kernel is one element, without padding and in one group, and channels lie innermost, each position
/// is a row of channels, and every pass of the convolution is a product of matrices. With strides, the inputs
/// that are used are gathered into scratch, or spread from it among zeros.
/// The call so, of the same operands without a bias, all stored in this format; `make` makes the product.
/// None of any other convolution.
std::optional<Prepared> pointwise(const Call& conv, Precision stored, const MakeProduct& make);

}  // namespace tandem::exec::cuda
