// SPDX-License-Identifier: Apache-2.0
#pragma once
// Activations that are dropped after their forward pass and recomputed for the backward pass, by the same
// calls on separate memory: the fourth phase of making a Graph executable (execution_graph.cpp). Internal to
// exec.
#include <vector>

#include "exec/lower/emitted_calls.h"

namespace tandem::exec {

/// Writes the calls of repeated blocks that run forward again to EmittedCalls::recompute, and puts
/// recomputation of single layers (norms, activations, attention) before the first backward pass that reads
/// it. The results are new tensors, which backward passes then read; running statistics count only the first
/// time. Operands must be resolved. Returns the blocks, in order. Throws InputError naming the layer that
/// cannot run again because devices exchange something in the middle of it or divide the sequence. O(layers x
/// calls).
std::vector<LayerRange> add_recomputation(EmittedCalls& calls, const Graph& graph, const GradientFlow& flow,
                                          const SliceUse& use);

}  // namespace tandem::exec
