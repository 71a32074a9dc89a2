// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reads a model file: parameters, expressions, blocks, groups and repeats, unrolled into a flat list of
// layers in file order with their inputs resolved. The format is described in models/README.md.
#include <cstdint>

#include "models/description.h"

namespace tandem::models {

/// `overrides` replace the document's "parameters". Throws InputError: unknown key, type, block or name
/// (nearest named), a block inside itself, more than kMaxLayers layers or kMaxValues attribute values.
ModelDescription read_model(const Json& document, const Settings& overrides, const Place& place,
                            const Registry<LayerType>& types);

inline constexpr std::size_t kMaxLayers = 100'000;
inline constexpr int64_t kMaxValues = 1'000'000;  ///< entries and attribute values, after unrolling
inline constexpr int64_t kMaxRepeat = 100'000;
inline constexpr std::size_t kMaxNesting = 32;     ///< blocks and groups inside each other
inline constexpr std::size_t kMaxPath = 256;       ///< characters of a layer's full name
inline constexpr int64_t kMaxKernels = 2'000'000;  ///< of the whole model
inline constexpr int64_t kMaxDimension = int64_t{1} << 31;

}  // namespace tandem::models
