// SPDX-License-Identifier: Apache-2.0
#include "exec/workers/compression.h"

#include <algorithm>

#include "base/random.h"
#include "exec/device/compression.h"

namespace tandem::exec {

Needs GradientCompression::needs(const Asked& a) {
  return {
      {compressed_words(a.program, a.stages.place(a.worker).role, a.lowered().graph()), &MemoryUse::buffers},
      {a.lowered().parameters() * feedback_vectors(a.program), &MemoryUse::buffers}};
}

GradientCompression::GradientCompression(const Workplace& place, const PassPlan& plan)
    : OpHandler(place), pass_plan_(plan) {
  const Needs need = needs(place.bench.asked());
  messages_ = place.bench.allocate(need[0]);
  left_out_ = place.bench.allocate(need[1]);
  start();
}

int64_t GradientCompression::words() const {
  return compressed_words(plan_.program(), plan_.stages().place(instance_).role, graph().graph());
}

CompressedBucket GradientCompression::compressed(uint32_t key) const {
  return {plan_.program().compression, graph().graph(), plan_.program().buckets[key],
          compressing_members(plan_.program(), role())};
}

/// The device's place among those whose messages are gathered.
int64_t GradientCompression::rank(uint32_t key) const {
  const auto& ops = role().ops;
  const auto gather = std::find_if(ops.begin(), ops.end(), [&](const Op& op) {
    return op.kind == OpKind::collective && op.payload == Payload::compressed && op.key == key;
  });
  return plan_.member(plan_.program().collectives[gather->what], instance_).rank;
}

/// Words of the bucket's buffer, and of the part for one server.
int64_t GradientCompression::message_words(uint32_t key) const {
  return plan_.program().stores.empty() ? compressed(key).words()
                                        : plan_.shards().with(key).size() * pushed(key);
}

int64_t GradientCompression::pushed(uint32_t key) const {
  return pushed_words(plan_.program().compression, plan_.program().buckets[key].elements,
                      plan_.shards().with(key).size());
}

int64_t GradientCompression::messages_before(uint32_t key) const {
  int64_t sum = 0;
  for (uint32_t k = 0; k < key; ++k) {
    if (!plan_.program().stores.empty() ||
        plan_.program().buckets[k].role == plan_.program().buckets[key].role)
      sum += message_words(k);
  }
  return sum;
}

/// Each server's part of what this worker pushes.
OpHandler::Act GradientCompression::compress_pushes(const Op& op) {
  std::vector<Launch> list;
  const auto shards = plan_.shards().with(op.key);
  for (const uint32_t s : shards) {
    const Slice slice = plan_.shards().slice(op.key, instance_, s);
    if (slice.elements == 0) continue;
    const CompressedBucket form(plan_.program().compression, slice.elements);
    Call call = compression_call(Function::compress, form);
    if (s == shards.front()) call.kernels = plan_.program().tasks[op.what].kernels;  // the whole bucket's
    Launch l;
    l.prepared = device_->prepare(call);
    l.time = driver_->timed(call);
    float *const gradients = memory_.gradients() + slice.first, *const left_out = left_out_ + slice.first;
    l.operands = {{messages(op.key) + (s - shards.front()) * pushed(op.key),
                   form.rule.feedback ? left_out : gradients, gradients}};
    list.push_back(std::move(l));
  }
  return [this, list](int32_t iteration) {
    driver_->launch(list, 0, plan_.state(instance_, iteration));
    return int64_t{0};
  };
}

/// PowerSGD starts with random matrices that are equal on all workers.
void GradientCompression::start() {
  if (plan_.program().compression.kind != Compression::Kind::powersgd) return;
  std::vector<float> start(static_cast<std::size_t>(words()));
  for (std::size_t i = 0; i < start.size(); ++i)
    start[i] = static_cast<float>(to_normal(draw_bits(plan_.execution().seed, i)));
  device_->upload(messages_, start.data(), static_cast<int64_t>(start.size()));
}

OpHandler::Act GradientCompression::bind(uint32_t index) {
  const Op& op = role().ops[index];
  if (!plan_.program().stores.empty()) return compress_pushes(op);
  const CompressedBucket form = compressed(op.key);
  const Task& task = plan_.program().tasks[op.what];
  const Bucket& bucket = plan_.program().buckets[op.key];
  const bool between = op.payload == Payload::compressed, back = task.pass == Pass::update;
  Call call = compression_call(between ? Function::orthogonalise
                               : back  ? Function::decompress
                                       : Function::compress,
                               form);
  call.kernels = task.kernels;
  Launch l;
  l.prepared = device_->prepare(call);
  l.time = driver_->timed(call);
  float *const gradients = memory_.gradients() + bucket.first, *const all = messages(op.key),
               *const left_out = left_out_ + bucket.first;
  float* const delta = form.rule.feedback ? left_out : gradients;
  float* const own = form.gathered() ? all + rank(op.key) * form.message() : all;
  if (between)
    l.operands = {{all, delta}};
  else if (back)
    l.operands = {{gradients, all, delta}};
  else
    l.operands = {{own, delta, gradients}};
  return [this, list = std::vector<Launch>{l}](int32_t iteration) {
    driver_->launch(list, 0, plan_.state(instance_, iteration));
    return int64_t{0};
  };
}

std::pair<float*, int64_t> GradientCompression::words_of(uint32_t index) const {
  const Op& op = role().ops[index];
  const CompressedBucket form = compressed(op.key);
  float* const all = messages(op.key);
  if (form.gathered()) return {all, form.words()};
  uint32_t before = pass_plan_.alike_before(index);
  int64_t at = 0;
  for (const int64_t words : {form.plain(), form.message() - form.plain(), form.second()}) {
    if (words > 0 && before-- == 0) return {all + at, words};
    at += words;
  }
  return {all, 0};
}

}  // namespace tandem::exec
