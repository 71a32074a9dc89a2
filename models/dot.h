// SPDX-License-Identifier: Apache-2.0
#pragma once
// Graphviz text of a model.
#include <string>

#include "models/graph.h"

namespace tandem::models {

/// One node per layer with its output, parameters and forward FLOPs of a sample. Above kDotLayers layers,
/// blocks become nodes, from the innermost outwards until the picture has at most kDotNodes (or only the
/// outermost are left), and equal blocks in a row become one ("x 96").
std::string model_dot(const Graph& graph);
inline constexpr std::size_t kDotLayers = 150;
inline constexpr std::size_t kDotNodes = 60;

}  // namespace tandem::models
