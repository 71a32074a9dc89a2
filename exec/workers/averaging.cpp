// SPDX-License-Identifier: Apache-2.0
// What the ops of a worker do in schemes that average parameters, and in those that apply gradients late
// (semantics.md 2.6, 2.7, 4.6).
#include <algorithm>

#include "exec/device/averaging.h"
#include "exec/workers/worker.h"

namespace tandem::exec {

/// The mean lies where the parameters were averaged, or beside them where these stay.
Worker::Act Worker::average(const Op& op, const Slice& part) {
  const Averaging& rule = run_.program().tasks[op.what].averaging;
  const auto& ops = role().ops;
  const bool beside = std::any_of(ops.begin(), ops.end(),
                                  [&](const Op& o) { return o.payload == Payload::mean && o.key == op.key; });
  Call call = average_call(rule, part.elements);
  call.kernels = run_.program().tasks[op.what].kernels;
  Launch l;
  l.prepared = device_->prepare(call);
  l.time = driver_->timed(call);
  float *const x = own_parameters(part.first), *const anchor =
                                                   averaging_ + kept_state_.of(part.first, part.elements);
  l.operands = {{x, beside ? gradients_ + part.first : x, anchor}};
  if (averaging_vectors(run_.program()) > 1) l.operands[0].push_back(anchor + kept_state_.elements());
  return [this, list = std::vector<Launch>{l}, copies = copied(part)](int32_t iteration) {
    driver_->launch(list, 0, run_.state(instance_, iteration));
    renew(copies, Lane::compute);
    return int64_t{0};
  };
}

/// With the gradients of `lag` iterations ago, in whose place those of this one then wait for their sum.
Worker::Act Worker::update_late(const Op& op, const Slice& part, int32_t lag) {
  const int64_t all = graph().parameters();
  Launch late = update(op, part);
  const std::vector<float*> now = late.operands[0];
  late.operands.clear();
  for (int32_t k = 0; k < lag; ++k) {
    late.operands.push_back(now);
    late.operands.back()[1] = delayed_ + k * all + part.first;
  }
  return [this, list = std::vector<Launch>{late}, part, lag, all](int32_t iteration) {
    const int32_t slot = iteration % lag;
    if (iteration >= lag) {
      IterationState s = run_.state(instance_, iteration - lag);
      s.slot = static_cast<uint32_t>(lag);
      driver_->launch(list, static_cast<std::size_t>(slot), s);
    }
    device_->copy(delayed_ + slot * all + part.first, gradients_ + part.first, part.elements, Lane::compute);
    return int64_t{0};
  };
}

/// The model as it is when it is sent, which others may change before the answer comes.
Worker::Act Worker::send_model(uint32_t index) {
  const Op& op = role().ops[index];
  bytes_[index] = 4 * run_.slice(op.key, instance_, instance_).elements;
  return [this, &op](int32_t iteration) {
    const uint32_t key = op.key, partner = run_.partner(op, instance_, iteration);
    const Slice own = run_.slice(key, instance_, instance_), other = run_.slice(key, instance_, partner);
    float *model = sent_ + own.first, *mean = replies_ + own.first;
    run_.store()->read(instance_, key, own, model);
    if (run_.apart(instance_, partner))
      run_.links()->push(instance_, partner, key, model, mean);
    else
      run_.store()->push(partner, key, instance_, other, model, mean, [this, key] { replied_[key].add(); });
    pushed_[key].add();
    return int64_t{0};
  };
}

/// What the mean moved this worker's model by; what others changed meanwhile stays.
Worker::Act Worker::receive_model(uint32_t index) {
  const auto& ops = role().ops;
  const Op& op = ops[index];
  const auto sender =
      std::find_if(ops.begin(), ops.end(), [](const Op& o) { return o.kind == OpKind::send; });
  return [this, &asked = *sender, key = op.key, near = uint32_t{0}](int32_t iteration) mutable {
    pushed_[key].wait(static_cast<uint32_t>(iteration) + 1, run_.abort(), run_.spins());
    const int64_t began = now_ns();
    const uint32_t partner = run_.partner(asked, instance_, iteration);
    if (run_.apart(instance_, partner))
      run_.links()->await(instance_, partner, key);
    else
      replied_[key].wait_awake(++near, run_.abort(), run_.spins());
    const Slice own = run_.slice(key, instance_, instance_);
    run_.store()->join(instance_, key, own, sent_ + own.first, replies_ + own.first);
    return began;
  };
}

/// On the model that others reach, of which a copy is computed with until the next update.
Worker::Act Worker::update_model(const Op& op, const Slice& part) {
  return [this, list = std::vector<Launch>{update(op, part)}, key = op.key, part,
          copies = copied(part)](int32_t iteration) {
    run_.store()->change(instance_, key, {part.first, part.elements, instance_}, [&](float* model) {
      device_->synchronize(Lane::compute);  // which may still read them
      device_->upload(parameters_ + part.first, model, part.elements);
      driver_->launch(list, 0, run_.state(instance_, iteration));
      renew(copies, Lane::compute);
      device_->synchronize(Lane::compute);
      device_->download(model, parameters_ + part.first, part.elements);
    });
    return int64_t{0};
  };
}

}  // namespace tandem::exec
