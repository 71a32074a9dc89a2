// SPDX-License-Identifier: Apache-2.0
#include "exec/workers/offload.h"

#include "exec/layout/memory.h"
#include "exec/workers/gradient_sums.h"

namespace tandem::exec {

Needs Offload::needs(const Asked& a) {
  const auto& offload = a.execution.job.offload;
  const int64_t kept = offload.optimizer ? kept_state(a.program, a.stages, a.worker).elements() : 0;
  const int64_t narrowed = reloaded_words(a.program, a.role(), a.execution.job.precision);
  const bool sums = a.program.micro_batches > 1 && offload.gradients;
  return {{narrowed, &MemoryUse::workspace},
          {kept, &MemoryUse::host},
          {sums ? kept : 0, &MemoryUse::host},
          {offload.optimizer ? narrowed : 0, &MemoryUse::host}};
}

Offload::Offload(const Workplace& place) : UpdateHandler(place) {
  const Needs need = needs(place.bench.asked());
  reloaded_ = place.bench.allocate(need[0]);
  if (!plan_.execution().job.offload.optimizer) return;
  host_gradients_ = memory_.allocate_on_host(need[1].words());
  host_sums_ = memory_.allocate_on_host(need[2].words());
  host_narrowed_ = memory_.allocate_on_host(need[3].words());
}

OpHandler::Act Offload::bind(uint32_t index) {
  const Op& op = role().ops[index];
  if (op.lane == Lane::offload) return offload(index);
  if (op.lane == Lane::reload) return reload(index);
  if (op.payload == Payload::gradients) return add_on_host(op);
  const Slice part = updated(index);
  return part.elements == 0 ? nothing() : update_on_host(op, part);
}

/// Gradients of the bucket, or the worker's share of them, are copied down.
OpHandler::Act Offload::offload(uint32_t index) {
  const Op& op = role().ops[index];
  const Slice part = plan_.share(op.key, instance_);
  bench_.bytes[index] = 4 * part.elements;
  const bool queued = plan_.execution().backend->asynchronous;
  if (part.elements == 0) return nothing();
  return [this, part, queued, lane = op.lane](int32_t) {
    float *to = host_gradients_ + memory_.kept_state().of(part.first), *from = own_gradients(part.first);
    queued ? device_->save(to, from, part.elements, lane) : device_->copy(to, from, part.elements, lane);
    return int64_t{0};
  };
}

/// Parameters are copied up, in 4 or 2 bytes.
OpHandler::Act Offload::reload(uint32_t index) {
  const Op& op = role().ops[index];
  const Slice part = plan_.share(op.key, instance_);
  const bool narrow = element_bytes(plan_.execution().job.precision) == 2,
             queued = plan_.execution().backend->asynchronous;
  const int64_t words = narrow ? (part.elements + 1) / 2 : part.elements;
  bench_.bytes[index] = 4 * words;
  if (part.elements == 0) return nothing();
  const bool whole = plan_.execution().job.offload.parameters;  // with nothing on the device in between
  return [this, part, narrow, queued, words, whole, copies = copied(part), lane = op.lane](int32_t) {
    float* const at = whole ? parameters_at(part.first) : own_parameters(part.first);
    float* const to = narrow ? reloaded_ : at;
    const float* from = memory_.host_parameters() + memory_.kept_state().of(part.first);
    if (narrow) {
      if (queued) device_->synchronize(lane);  // the previous copy has left these words
      memory_.host()->narrow(host_narrowed_, from, part.elements, Lane::host);
      from = host_narrowed_;
    }
    queued ? device_->load(to, from, words, lane) : device_->copy(to, from, words, lane);
    if (narrow) device_->upcast(at, reloaded_, part.elements, lane);
    renew(copies, lane);
    return int64_t{0};
  };
}

/// Adds gradients of a micro-batch that have been copied down to the earlier ones of the step.
OpHandler::Act Offload::add_on_host(const Op& op) {
  const Slice part = plan_.share(op.key, instance_);
  if (part.elements == 0) return nothing();
  return [this, part](int32_t iteration) {
    const StepPosition at = position(plan_, {}, iteration);
    const int64_t first = memory_.kept_state().of(part.first);
    float *arrived = host_gradients_ + first, *sum = host_sums_ + first;
    if (at.first && at.last) return int64_t{0};
    if (at.first)
      memory_.host()->copy(sum, arrived, part.elements, Lane::host);
    else if (at.last)
      memory_.host()->accumulate(arrived, sum, part.elements, Lane::host);
    else
      memory_.host()->accumulate(sum, arrived, part.elements, Lane::host);
    return int64_t{0};
  };
}

/// On the host's processors, on what is there.
OpHandler::Act Offload::update_on_host(const Op& op, const Slice& part) {
  const int64_t first = memory_.kept_state().of(part.first);
  std::vector<float*> operands{memory_.host_parameters() + first, host_gradients_ + first};
  memory_.add_state(operands, part.first);
  return [this, operands, prepared = memory_.host()->prepare(update_call(op, part))](int32_t iteration) {
    memory_.host()->launch(prepared, operands, plan_.state(instance_, iteration), Lane::host);
    return int64_t{0};
  };
}

}  // namespace tandem::exec
