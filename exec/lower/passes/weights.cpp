// SPDX-License-Identifier: Apache-2.0
// Learned elements that no pass reads: the output is the input, and their gradient is zero.
#include "exec/lower/passes/calls.h"

namespace tandem::exec {

namespace {

void weights(LayerCalls& l) {
  l.out_is_in(false);
  if (l.needs_d_in(0)) l.d_in_is_d_out(0);
  if (l.learns()) l.call(make_fill(Pass::backward_weights, l.gradient(0), l.weights()[0].elements, 0));
}

}  // namespace

void register_weights(Registry<LayerExecution>& registry) {
  registry.add({"weights", "a view; a gradient of zeros", weights});
}

}  // namespace tandem::exec
