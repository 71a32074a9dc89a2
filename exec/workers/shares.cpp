// SPDX-License-Identifier: Apache-2.0
// Between a worker's own share of a bucket and the room where the bucket is whole for a while.
#include <limits>

#include "exec/workers/worker.h"

namespace tandem::exec {

/// The part of the flat vector that an update is of.
Slice Worker::updated(uint32_t index) const {
  const Op& op = role().ops[index];
  const Bucket& bucket = run_.program().buckets[op.key];
  const Slice part =
      op.payload == Payload::shard ? run_.share(op.key, instance_) : Slice{bucket.first, bucket.elements};
  const bool own = run_.program().tasks[op.what].averaging.rule == Averaging::Rule::none;
  if (!own || !run_.execution().job.optimizer->by_tensor()) return part;
  return whole_tensors(run_.program(), role(), optimizer_state_, index, part);
}

/// Before parameters are gathered. Null where the collective gathers none, or in place.
Worker::Act Worker::bring_share(uint32_t index) {
  const Op& op = role().ops[index];
  const bool gathers =
      op.payload == Payload::parameters && run_.program().collectives[op.what].kind == CollKind::all_gather;
  if (!gathers || !in_gather_buffer(op.key) || run_.execution().job.offload.parameters) return nullptr;
  const Slice own = run_.share(op.key, instance_);
  if (own.elements == 0) return nullptr;
  return [this, own, lane = op.lane](int32_t) {
    device_->copy(parameters_at(own.first), own_parameters(own.first), own.elements, lane);
    return int64_t{0};
  };
}

/// Behind the sum of gradients, of which each worker keeps its share, added to those of the step's
/// micro-batches before. Null where the collective leaves it in place for good.
Worker::Act Worker::keep_share(uint32_t index) {
  const Op& op = role().ops[index];
  if (op.payload != Payload::gradients ||
      run_.program().collectives[op.what].kind != CollKind::reduce_scatter)
    return nullptr;
  const Slice own = run_.share(op.key, instance_);
  const Position of_op = op_position_[index];
  if (!gradients_in_gather_buffer(op.key)) {
    if (!run_.sums_shares() || run_.sums_on_host()) return nullptr;
    return [this, own, of_op, lane = op.lane](int32_t iteration) {
      add_up(own.first, own.first + own.elements, position(of_op, iteration), lane);
      return int64_t{0};
    };
  }
  return [this, own, of_op, &bucket = run_.program().buckets[op.key], lane = op.lane](int32_t iteration) {
    if (own.elements > 0) {
      float *const to = own_gradients(own.first), *const from = gradients_at(own.first);
      if (run_.sums_on_host() || position(of_op, iteration).first)
        device_->copy(to, from, own.elements, lane);
      else
        device_->accumulate(to, from, own.elements, lane);
    }
    if (run_.execution().poison)
      device_->scale(gradients_at(bucket.first), std::numeric_limits<float>::quiet_NaN(), bucket.elements,
                     lane);
    return int64_t{0};
  };
}

}  // namespace tandem::exec
