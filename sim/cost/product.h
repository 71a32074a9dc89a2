// SPDX-License-Identifier: Apache-2.0
#pragma once
// Kernels on matrix units as the matrix products that they do. Pure; any thread may call; throws nothing.
#include <optional>

#include "models/layers/kernel.h"

namespace tandem::sim {

/// `groups` times C[m, n] += A[m, k] B[k, n]. Counts; a convolution's k may be no whole number.
struct Product {
  double groups, m, n, k;
};

/// What an implicit-gemm convolution does in its pass: k is the input channels times the kernel's taps
/// forward, what is summed over in the other passes.
Product product_of(const ConvShape& shape, Pass pass);

/// Of a gemm, a convolution, or an attention (a head's scores); none of other kinds.
std::optional<Product> product_of(const Kernel& kernel);

}  // namespace tandem::sim
