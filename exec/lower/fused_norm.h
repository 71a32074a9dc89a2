// SPDX-License-Identifier: Apache-2.0
#pragma once
// Batch normalisations take on what follows them element by element, where a backend can do both at once:
// memory is then walked through once less in each pass. Internal to exec.
#include "exec/lower/emitted_calls.h"

namespace tandem::exec {

/// Of every normalisation, over one device's samples, of which only a rectifier (relu, relu6) reads, or only
/// an addition of one more tensor of the same size that nothing but a rectifier reads: their calls become
/// batch_norm_relu and its kin, in the normalisation's layer, and none are left in the rectifier's and the
/// addition's. A normalisation that is added to another one made later stays by itself. Tensors, their ids
/// and parameters stay as they are; kernels of the model go with the calls that realise them. O(calls).
void fuse_norms(const Graph& graph, const GradientFlow& flow, EmittedCalls& calls);

}  // namespace tandem::exec
