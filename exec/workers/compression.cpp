// SPDX-License-Identifier: Apache-2.0
// Gradients that travel in another form (semantics.md 2.8).
#include <algorithm>

#include "base/random.h"
#include "exec/device/compression.h"
#include "exec/workers/worker.h"
#include "schemes/compression.h"

namespace tandem::exec {

CompressedBucket Worker::compressed(uint32_t key) const {
  return {run_.program().compression, run_.execution_graph().graph(), run_.program().buckets[key],
          int64_t{run_.workers()}};
}

/// Words of the bucket's buffer, and of what goes to one server.
int64_t Worker::message_words(uint32_t key) const {
  return run_.program().stores.empty() ? compressed(key).words() : run_.shards_of(key).size() * pushed(key);
}
int64_t Worker::pushed(uint32_t key) const {
  return pushed_words(run_.program().compression, run_.program().buckets[key].elements,
                      run_.shards_of(key).size());
}

/// Where the bucket's buffer begins, from the first.
int64_t Worker::messages_before(uint32_t key) const {
  int64_t sum = 0;
  for (uint32_t k = 0; k < key; ++k) sum += message_words(k);
  return sum;
}
float* Worker::messages(uint32_t key) const { return messages_ + messages_before(key); }

/// Each server's part of what this worker pushes.
Worker::Act Worker::compress_pushes(const Op& op) {
  std::vector<Launch> list;
  const auto shards = run_.shards_of(op.key);
  for (const uint32_t s : shards) {
    const Slice slice = run_.slice(op.key, instance_, s);
    if (slice.elements == 0) continue;
    const CompressedBucket form(run_.program().compression, slice.elements);
    Call call = compression_call(Function::compress, form);
    if (s == shards.front()) call.kernels = run_.program().tasks[op.what].kernels;  // the whole bucket's
    Launch l;
    l.prepared = device_->prepare(call);
    l.time = driver_->timed(call);
    float *const gradients = gradients_ + slice.first, *const left_out = left_out_ + slice.first;
    l.operands = {{messages(op.key) + (s - shards.front()) * pushed(op.key),
                   form.rule.feedback ? left_out : gradients, gradients}};
    list.push_back(std::move(l));
  }
  return [this, list](int32_t iteration) {
    driver_->launch(list, 0, run_.state(instance_, iteration));
    return int64_t{0};
  };
}

/// PowerSGD begins with random matrices that all workers have alike.
void Worker::begin_compressed() {
  if (run_.program().compression.kind != Compression::Kind::powersgd) return;
  std::vector<float> start(
      static_cast<std::size_t>(compressed_words(run_.program(), run_.execution_graph().graph())));
  for (std::size_t i = 0; i < start.size(); ++i)
    start[i] = static_cast<float>(to_normal(draw_bits(run_.execution().seed, i)));
  device_->upload(messages_, start.data(), static_cast<int64_t>(start.size()));
}

Worker::Act Worker::compress(const Op& op) {
  if (!run_.program().stores.empty()) return compress_pushes(op);
  if (!run_.compresses()) return cast_gradients(op);
  const CompressedBucket form = compressed(op.key);
  const Task& task = run_.program().tasks[op.what];
  const Bucket& bucket = run_.program().buckets[op.key];
  const bool between = op.payload == Payload::compressed, back = task.pass == Pass::update;
  Call call = compression_call(between ? Function::orthogonalise
                               : back  ? Function::decompress
                                       : Function::compress,
                               form);
  call.kernels = task.kernels;
  Launch l;
  l.prepared = device_->prepare(call);
  l.time = driver_->timed(call);
  float *const gradients = gradients_ + bucket.first, *const all = messages(op.key),
               *const left_out = left_out_ + bucket.first;
  float* const delta = form.rule.feedback ? left_out : gradients;
  float* const own = form.gathered() ? all + int64_t{instance_} * form.message() : all;
  if (between)
    l.operands = {{all, delta}};
  else if (back)
    l.operands = {{gradients, all, delta}};
  else
    l.operands = {{own, delta, gradients}};
  return [this, list = std::vector<Launch>{l}](int32_t iteration) {
    driver_->launch(list, 0, run_.state(instance_, iteration));
    return int64_t{0};
  };
}

/// What a collective gathers, or one of the sums, which lie one behind the other.
std::pair<float*, int64_t> Worker::compressed_words_of(uint32_t index) const {
  const auto& ops = role().ops;
  const Op& op = ops[index];
  const CompressedBucket form = compressed(op.key);
  float* const all = messages(op.key);
  if (form.gathered()) return {all, form.words()};
  auto before = std::count_if(ops.begin(), ops.begin() + index, [&](const Op& o) {
    return o.kind == OpKind::collective && o.payload == op.payload && o.key == op.key;
  });
  int64_t at = 0;
  for (const int64_t words : {form.plain(), form.message() - form.plain(), form.second()}) {
    if (words > 0 && before-- == 0) return {all + at, words};
    at += words;
  }
  return {all, 0};
}

}  // namespace tandem::exec
