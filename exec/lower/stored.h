// SPDX-License-Identifier: Apache-2.0
#pragma once
// Weights that stay as they are, put into fewer bits.
#include <string>
#include <vector>

#include "exec/lower/call_shapes.h"

namespace tandem::exec {

/// Call::shape of Function::restore for a matrix in a format of models (Layer::frozen_bits): "nf4", "nf4-dq",
/// "int8".
std::vector<int64_t> stored_shape(int64_t elements, int64_t columns, const std::string& format);

/// `values`, of shape.elements, to shape.words(): each as the nearest number that the format has, scales
/// being the largest magnitudes. Pure; any thread may call it. O(elements).
std::vector<float> store(const StoredShape& shape, const float* values);

}  // namespace tandem::exec
