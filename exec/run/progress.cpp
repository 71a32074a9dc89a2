// SPDX-License-Identifier: Apache-2.0
// What a run can measure of its progress: when a loss is reached, and the norms of gradients.
#include "exec/layout/half_gradients.h"
#include "exec/run/run.h"

namespace tandem::exec {

bool Run::sums_gradients(const Op& op) const {
  return op.kind == OpKind::collective && op.payload == Payload::gradients &&
         program_.collectives[op.what].kind == CollKind::all_reduce;
}

void Run::make_watch() {
  const bool apart = execution_.backend->asynchronous || ranks().several() || stages_.split();
  if (execution_.target) {
    if (apart) refuse("--target-loss needs processors, one process and a model without stages");
    watch_ = std::make_unique<LossWatch>(*execution_.target);
  }
  if (!keep_.norms) return;
  const Role& role = program_.roles[0];
  int64_t summed = 0;
  for (uint32_t i = 0; i < role.ops.size(); ++i) {
    if (sums_gradients(role.ops[i])) summed += program_.buckets[role.ops[i].key].elements;
  }
  if (apart || stages_.uneven() || program_.delay > 0 || casts_gradients(program_) ||
      summed != execution_graph().parameters())
    refuse(
        "the noise scale is measured where processors all-reduce the gradients of two workers or more, of "
        "equal batches: "
        "--scheme allreduce --devices 2");
}

}  // namespace tandem::exec
