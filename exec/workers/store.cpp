// SPDX-License-Identifier: Apache-2.0
// A worker's messages to and from a parameter server.
#include "exec/workers/worker.h"

namespace tandem::exec {

Worker::Act Worker::send(uint32_t index) {
  const Op& op = role().ops[index];
  const int64_t pushed_words = run_.compresses() ? pushed(op.key) : 0, before = messages_before(op.key);
  for (const uint32_t s : run_.shards_of(op.key))
    bytes_[index] += 4 * (pushed_words > 0 ? pushed_words : run_.slice(op.key, instance_, s).elements);
  const bool answered = run_.program().stores[0].reader < 0;  // with parameters
  return [this, key = op.key, lane = op.lane, pushed_words, before, answered](int32_t) {
    for (const uint32_t s : run_.shards_of(key)) {
      const Slice slice = run_.slice(key, instance_, s);
      const int64_t at = before + (s - run_.shards_of(key).front()) * pushed_words;
      float *const gradient = pushed_words > 0 ? sent_messages_ + at : sent_ + slice.first,
                   *const from = pushed_words > 0 ? messages_ + at : outgoing_ + slice.first,
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

/// Store::reader: is it asked for parameters, or does the answer say that a push was merged?
bool Worker::asks(const Op& op) const {
  return run_.program().channels[op.what].to_role != run_.program().stores[0].role;
}
bool Worker::acknowledges(const Op& op) const {
  return run_.program().channels[op.what].from_role != run_.program().stores[0].answers();
}

Worker::Act Worker::ask(uint32_t index) {
  const Op& op = role().ops[index];
  bytes_[index] += int64_t{4} * run_.shards_of(op.key).size();
  return [this, key = op.key](int32_t) {
    for (const uint32_t s : run_.shards_of(key)) {
      const Slice slice = run_.slice(key, instance_, s);
      if (run_.apart(instance_, s))
        run_.links()->pull(instance_, s, key, replies_ + slice.first);
      else
        run_.store()->pull(s, key, instance_, slice, replies_ + slice.first);
    }
    return int64_t{0};
  };
}

/// Until all shards of the key have answered.
Worker::Act Worker::receive_answers(const Op& op) {
  uint32_t near = 0;
  for (const uint32_t s : run_.shards_of(op.key)) near += run_.apart(instance_, s) ? 0 : 1;
  return [this, key = op.key, every = op.every, near](int32_t iteration) {
    const uint32_t rounds = (static_cast<uint32_t>(iteration) + 1) / every;
    pushed_[key].wait(rounds, run_.abort(), run_.spins());
    const int64_t began = now_ns();
    replied_[key].wait_awake(rounds * near, run_.abort(), run_.spins());
    for (const uint32_t s : run_.shards_of(key)) {
      if (run_.apart(instance_, s)) run_.links()->await(instance_, s, key);
    }
    return began;
  };
}

Worker::Act Worker::receive(const Op& op) {
  const Bucket& bucket = run_.program().buckets[op.key];
  const CopiedRange copies =
      incoming_ == parameters_ ? copied({bucket.first, bucket.elements}) : CopiedRange{};
  return [this, key = op.key, lane = op.lane, answered = receive_answers(op), copies](int32_t iteration) {
    const int64_t began = answered(iteration);
    for (const uint32_t s : run_.shards_of(key)) {
      const Slice slice = run_.slice(key, instance_, s);
      driver_->to_device(incoming_ + slice.first, replies_ + slice.first, slice.elements, lane);
    }
    renew(copies, lane);
    device_->synchronize(lane);
    return began;
  };
}

}  // namespace tandem::exec
