// SPDX-License-Identifier: Apache-2.0
// What is offloaded: copies between a worker's device and its host, and what the host's processors do.
#include "exec/workers/worker.h"

namespace tandem::exec {

/// Gradients of the bucket, or the worker's share of them, go down.
Worker::Act Worker::offload(uint32_t index) {
  const Op& op = role().ops[index];
  const Slice part = run_.share(op.key, instance_);
  bytes_[index] = 4 * part.elements;
  const bool queued = run_.execution().backend->asynchronous;
  if (part.elements == 0) return [](int32_t) { return int64_t{0}; };
  return [this, part, queued, lane = op.lane](int32_t) {
    float *to = host_gradients_ + kept_state_.of(part.first), *from = own_gradients(part.first);
    queued ? device_->save(to, from, part.elements, lane) : device_->copy(to, from, part.elements, lane);
    return int64_t{0};
  };
}

/// Parameters come up, from 4 bytes or in 2.
Worker::Act Worker::reload(uint32_t index) {
  const Op& op = role().ops[index];
  const Slice part = run_.share(op.key, instance_);
  const bool narrow = element_bytes(run_.execution().job.precision) == 2,
             queued = run_.execution().backend->asynchronous;
  const int64_t words = narrow ? (part.elements + 1) / 2 : part.elements;
  bytes_[index] = 4 * words;
  if (part.elements == 0) return [](int32_t) { return int64_t{0}; };
  const bool whole = run_.execution().job.offload.parameters;  // with nothing of them on the device between
  return [this, part, narrow, queued, words, whole, copies = copied(part), lane = op.lane](int32_t) {
    float* const at = whole ? parameters_at(part.first) : own_parameters(part.first);
    float* const to = narrow ? reloaded_ : at;
    const float* from = host_parameters_ + kept_state_.of(part.first);
    if (narrow) {
      if (queued) device_->synchronize(lane);  // what came up before has left these words
      host_->narrow(host_narrowed_, from, part.elements, Lane::host);
      from = host_narrowed_;
    }
    queued ? device_->load(to, from, words, lane) : device_->copy(to, from, words, lane);
    if (narrow) device_->upcast(at, reloaded_, part.elements, lane);
    renew(copies, lane);
    return int64_t{0};
  };
}

/// Gradients of a micro-batch that have come down, to those before it in the step.
Worker::Act Worker::add_on_host(const Op& op) {
  const Slice part = run_.share(op.key, instance_);
  if (part.elements == 0) return [](int32_t) { return int64_t{0}; };
  return [this, part](int32_t iteration) {
    const Position at = position({}, iteration);
    const int64_t first = kept_state_.of(part.first);
    float *arrived = host_gradients_ + first, *sum = host_sums_ + first;
    if (at.first && at.last) return int64_t{0};
    if (at.first)
      host_->copy(sum, arrived, part.elements, Lane::host);
    else if (at.last)
      host_->accumulate(arrived, sum, part.elements, Lane::host);
    else
      host_->accumulate(sum, arrived, part.elements, Lane::host);
    return int64_t{0};
  };
}

/// By the host's processors, on what is there.
Worker::Act Worker::update_on_host(const Op& op, const Slice& part) {
  const int64_t first = kept_state_.of(part.first);
  std::vector<float*> operands{host_parameters_ + first, host_gradients_ + first};
  add_state(operands, host_state_, part.first);
  return [this, operands, prepared = host_->prepare(update_call(op, part))](int32_t iteration) {
    host_->launch(prepared, operands, run_.state(instance_, iteration), Lane::host);
    return int64_t{0};
  };
}

}  // namespace tandem::exec
