// SPDX-License-Identifier: Apache-2.0
#include "exec/workers/store_messages.h"

#include <algorithm>

namespace tandem::exec {

StoreMessages::StoreMessages(const Workplace& place, const Averages& averages,
                             const GradientCompression& compression)
    : OpHandler(place),
      compression_(compression),
      pushed_(plan_.program().buckets.size()),
      replied_(pushed_.size()) {
  for (Counter& p : pushed_) run_.abort().watch(&p);
  for (Counter& r : replied_) run_.abort().watch(&r);
  meet_store(averages);
}

OpHandler::Act StoreMessages::bind(uint32_t index) {
  const Op& op = role().ops[index];
  if (op.kind == OpKind::send)
    return plan_.shards().hold_models() ? send_model(index) : asks(op) ? ask(index) : send(index);
  return plan_.shards().hold_models() ? receive_model(index)
         : acknowledges(op)           ? receive_answers(op)
                                      : receive(op);
}

/// A store in host memory cannot reach into an asynchronous device's.
void StoreMessages::meet_store(const Averages& averages) {
  sent_ = outgoing_ = plan_.shards().exchange_parameters() ? memory_.parameters() : memory_.gradients();
  replies_ = incoming_ = averaging_vectors(plan_.program()) > 0 ? averages.anchor() : memory_.parameters();
  if (!run_.store() || run_.store()->on_devices()) return;
  if (plan_.shards().hold_models()) {
    models_.resize(static_cast<std::size_t>(2 * graph().parameters()));
    sent_ = models_.data();
    replies_ = sent_ + graph().parameters();
    return;
  }
  const int64_t words = compression_.words();
  if (words > 0) sent_messages_ = driver_->host_memory(compression_.messages(), words);
  const int64_t exchanged =
      graph().parameters() * plan_.shards().exchanged_vectors();  // followed by the state
  sent_ = driver_->host_memory(outgoing_, exchanged);
  replies_ = driver_->host_memory(incoming_, exchanged);
}

OpHandler::Act StoreMessages::send(uint32_t index) {
  const Op& op = role().ops[index];
  const int64_t pushed_words = plan_.compresses() ? compression_.pushed(op.key) : 0,
                before = compression_.messages_before(op.key);
  for (const uint32_t s : plan_.shards().with(op.key))
    bench_.bytes[index] +=
        4 * (pushed_words > 0 ? pushed_words : plan_.shards().slice(op.key, instance_, s).elements);
  const bool answered = plan_.program().stores[0].reader < 0;  // with parameters
  return [this, key = op.key, lane = op.lane, pushed_words, before, answered](int32_t) {
    for (const uint32_t s : plan_.shards().with(key)) {
      const Slice slice = plan_.shards().slice(key, instance_, s);
      const int64_t at = before + (s - plan_.shards().with(key).front()) * pushed_words;
      float *const gradient = pushed_words > 0 ? sent_messages_ + at : sent_ + slice.first,
                   *const from = pushed_words > 0 ? compression_.messages() + at : outgoing_ + slice.first,
                   *const reply = answered ? replies_ + slice.first : nullptr;
      driver_->to_host(gradient, from, pushed_words > 0 ? pushed_words : slice.elements, lane);
      if (run_.apart(instance_, s)) {
        run_.links()->push(instance_, s, key, gradient, reply);
        continue;
      }
      run_.store()->push(s, key, instance_, slice, gradient, reply, [this, key] { replied_[key].add(); });
    }
    device_->synchronize(lane);
    pushed_[key].add();
    return int64_t{0};
  };
}

/// Store::reader: whether it requests parameters, or the reply says that a push was merged.
bool StoreMessages::asks(const Op& op) const {
  return plan_.program().channels[op.what].to_role != plan_.program().stores[0].role;
}

bool StoreMessages::acknowledges(const Op& op) const {
  return plan_.program().channels[op.what].from_role != plan_.program().stores[0].answers();
}

OpHandler::Act StoreMessages::ask(uint32_t index) {
  const Op& op = role().ops[index];
  bench_.bytes[index] += int64_t{4} * plan_.shards().with(op.key).size();
  return [this, key = op.key](int32_t) {
    for (const uint32_t s : plan_.shards().with(key)) {
      const Slice slice = plan_.shards().slice(key, instance_, s);
      if (run_.apart(instance_, s))
        run_.links()->pull(instance_, s, key, replies_ + slice.first);
      else
        run_.store()->pull(s, key, instance_, slice, replies_ + slice.first);
    }
    return int64_t{0};
  };
}

/// Until all shards of the key have replied.
OpHandler::Act StoreMessages::receive_answers(const Op& op) {
  uint32_t near = 0;
  for (const uint32_t s : plan_.shards().with(op.key)) near += run_.apart(instance_, s) ? 0 : 1;
  return [this, key = op.key, every = op.every, near](int32_t iteration) {
    const uint32_t rounds = (static_cast<uint32_t>(iteration) + 1) / every;
    pushed_[key].wait(rounds, run_.abort(), run_.spins());
    const int64_t began = now_ns();
    replied_[key].wait_awake(rounds * near, run_.abort(), run_.spins());
    for (const uint32_t s : plan_.shards().with(key)) {
      if (run_.apart(instance_, s)) run_.links()->await(instance_, s, key);
    }
    return began;
  };
}

OpHandler::Act StoreMessages::receive(const Op& op) {
  const Bucket& bucket = plan_.program().buckets[op.key];
  const CopiedRange copies =
      incoming_ == memory_.parameters() ? copied({bucket.first, bucket.elements}) : CopiedRange{};
  return [this, key = op.key, lane = op.lane, answered = receive_answers(op), copies](int32_t iteration) {
    const int64_t began = answered(iteration);
    for (const uint32_t s : plan_.shards().with(key)) {
      const Slice slice = plan_.shards().slice(key, instance_, s);
      driver_->to_device(incoming_ + slice.first, replies_ + slice.first, slice.elements, lane);
    }
    renew(copies, lane);
    device_->synchronize(lane);
    return began;
  };
}

/// The model as sent; others may change it before the reply comes.
OpHandler::Act StoreMessages::send_model(uint32_t index) {
  const Op& op = role().ops[index];
  bench_.bytes[index] = 4 * plan_.shards().slice(op.key, instance_, instance_).elements;
  return [this, &op](int32_t iteration) {
    const uint32_t key = op.key, partner = plan_.shards().partner(op, instance_, iteration);
    const Slice own = plan_.shards().slice(key, instance_, instance_),
                other = plan_.shards().slice(key, instance_, partner);
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

/// Applies the mean's change to this worker's model; other workers' changes in the meantime stay.
OpHandler::Act StoreMessages::receive_model(uint32_t index) {
  const auto& ops = role().ops;
  const Op& op = ops[index];
  const auto sender =
      std::find_if(ops.begin(), ops.end(), [](const Op& o) { return o.kind == OpKind::send; });
  return [this, &asked = *sender, key = op.key, near = uint32_t{0}](int32_t iteration) mutable {
    pushed_[key].wait(static_cast<uint32_t>(iteration) + 1, run_.abort(), run_.spins());
    const int64_t began = now_ns();
    const uint32_t partner = plan_.shards().partner(asked, instance_, iteration);
    if (run_.apart(instance_, partner))
      run_.links()->await(instance_, partner, key);
    else
      replied_[key].wait_awake(++near, run_.abort(), run_.spins());
    const Slice own = plan_.shards().slice(key, instance_, instance_);
    run_.store()->join(instance_, key, own, sent_ + own.first, replies_ + own.first);
    return began;
  };
}

}  // namespace tandem::exec
