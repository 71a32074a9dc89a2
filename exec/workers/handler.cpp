// SPDX-License-Identifier: Apache-2.0
#include "exec/workers/handler.h"

#include <utility>

namespace tandem::exec {

OpHandler::OpHandler(const Workplace& place)
    : bench_(place.bench),
      run_(place.bench.run),
      plan_(place.bench.plan),
      instance_(place.bench.instance),
      device_(place.bench.device.get()),
      driver_(place.bench.driver.get()),
      memory_(place.memory),
      copies_(place.copies) {}

Launch OpHandler::launch_of(const Call& call, std::vector<float*> operands) const {
  Launch l;
  l.prepared = device_->prepare(call);
  l.time = driver_->timed(call);
  l.operands = {std::move(operands)};
  return l;
}

Slice UpdateHandler::updated(uint32_t index) const {
  const Op& op = role().ops[index];
  const Bucket& bucket = plan_.program().buckets[op.key];
  const Slice part =
      op.payload == Payload::shard ? plan_.share(op.key, instance_) : Slice{bucket.first, bucket.elements};
  const bool own = plan_.program().tasks[op.what].averaging.rule == Averaging::Rule::none;
  if (!own || !plan_.execution().job.optimizer->by_tensor()) return part;
  return whole_tensors(plan_.program(), role(), memory_.optimizer_state(), index, part);
}

Call UpdateHandler::update_call(const Op& op, const Slice& part) const {
  Call call = plan_.update_call(memory_.optimizer_state(), part);
  call.kernels = plan_.program().tasks[op.what].kernels;
  return call;
}

}  // namespace tandem::exec
