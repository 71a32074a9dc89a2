// SPDX-License-Identifier: Apache-2.0
#pragma once
// Batch normalisations take on what follows them element by element, where a backend can do both at once:
// memory is then walked through once less in each pass. Internal to exec.
#include "exec/lower/emitted_calls.h"

namespace tandem::exec {

/// Of every normalisation after which Graph::lower marked kernels (Kernel::fused, models/fused_norm.h),
/// where memory allows and no other device reads what lies in between: their calls become batch_norm_relu and
/// its kin, in the normalisation's layer, and none are left in the rectifier's and the addition's. Tensors,
/// their ids and parameters stay as they are; kernels of the model go with the calls that realise them.
/// O(calls).
void fuse_norms(const Graph& graph, const GradientFlow& flow, EmittedCalls& calls);

/// Takes Kernel::fused away from the calls' kernels that were not, whether the backend fuses or not.
/// O(calls).
void mark_what_is_fused(EmittedCalls& calls);

}  // namespace tandem::exec
