// SPDX-License-Identifier: Apache-2.0
#pragma once
// powersgd.cu for compression.cu.
#include "exec/device/compression_shape.h"
#include "exec/device/cuda/kernel.h"

namespace tandem::exec::cuda {

/// The three functions of exec/lower/call.h. Wide products are make_product()'s.
Prepared compress_powersgd(const CompressionShape& shape);
Prepared orthogonalise_powersgd(const CompressionShape& shape);
Prepared decompress_powersgd(const CompressionShape& shape);

}  // namespace tandem::exec::cuda
