// SPDX-License-Identifier: Apache-2.0
#pragma once
// The kernel of normalisations, which attention has inside, too.
#include "models/layers/kernel.h"

namespace tandem::models {

/// Of a normalisation: `reads` and `writes` are passes over all rows x length elements of `size` bytes,
/// `flops` of one element.
Kernel norm(Pass pass, int64_t rows, int64_t length, int64_t reads, int64_t writes, int64_t flops,
            int64_t size);

}  // namespace tandem::models
