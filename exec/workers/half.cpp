// SPDX-License-Identifier: Apache-2.0
// Formats of 2 bytes: gradients that travel in them, and steps that are left out in fp16.
#include <algorithm>

#include "exec/workers/worker.h"

namespace tandem::exec {

/// Where an op's gradients lie in 2 bytes.
float* Worker::half_memory(const Op& op) const { return half_ + half_place(run_.program(), role(), op); }

void Worker::narrow_gradients(const HalfGradients& form, float* words, const float* gradients, Lane lane) {
  for (uint32_t part = 0; part < form.parts; ++part) {
    const Slice s = half_part(form, part);
    device_->narrow_gradients(words + part * form.each(), gradients + s.first, s.elements, lane);
  }
}

/// Of a reduce-scatter the member's part alone.
void Worker::upcast_gradients(const HalfGradients& form, uint32_t rank, float* gradients, const float* words,
                              Lane lane) {
  const uint32_t part = form.parts > 1 ? rank : 0;
  const Slice s = half_part(form, part);
  device_->upcast_gradients(gradients + s.first, words + part * form.each(), s.elements, lane);
}

Slice Worker::half_part(const HalfGradients& form, uint32_t part) {
  const auto parts = static_cast<uint32_t>(form.parts);
  const int64_t begin = chunk_begin(form.elements, parts, part);
  return {begin, chunk_begin(form.elements, parts, part + 1) - begin};
}

/// An op of its own in front of the sums, or behind them.
Worker::Act Worker::cast_gradients(const Op& op) {
  const HalfGradients form = half_gradients(run_.program(), op);
  float *const words = half_memory(op), *const gradients = gradients_at(run_.program().buckets[op.key].first);
  const bool back = run_.program().tasks[op.what].pass == Pass::update;
  return [=, this, lane = op.lane](int32_t) {
    if (back)
      upcast_gradients(form, 0, gradients, words, lane);
    else
      narrow_gradients(form, words, gradients, lane);
    return int64_t{0};
  };
}

/// This worker's share of the parameters, to its place among all shares.
void Worker::narrow_share(uint32_t key, float* words, Lane lane) {
  const Slice own = run_.share(key, instance_);
  if (own.elements > 0) device_->narrow(words, parameters_at(own.first), own.elements, lane);
}

/// Those of the others; its own it keeps in 4 bytes, as the optimiser left it.
void Worker::upcast_shards(uint32_t key, const Run::Member& m, const float* words, int64_t each, Lane lane) {
  for (uint32_t rank = 0; rank < m.ranks; ++rank) {
    const Slice other = run_.cut_bucket(key, rank, m.ranks);
    if (rank != m.rank && other.elements > 0)
      device_->upcast(parameters_at(other.first), words + rank * each, other.elements, lane);
  }
}

/// Is it a step's first update, in front of which all gradients have been summed (update=all, one worker)?
/// In fp16 one that is not finite then stops them all (torch.amp.GradScaler).
bool Worker::judges_step(uint32_t index) const {
  if (run_.execution().job.precision != Precision::fp16 || run_.stages().split() || run_.store() != nullptr ||
      run_.spreads())
    return false;
  const auto& ops = role().ops;
  int64_t last_sum = -1, first_update = -1;
  for (uint32_t i = 0; i < ops.size(); ++i) {
    if (ops[i].kind == OpKind::collective && ops[i].payload == Payload::gradients) last_sum = i;
    if (ops[i].kind == OpKind::compute && ops[i].payload == Payload::parameters && first_update < 0)
      first_update = i;
  }
  if (first_update != index || last_sum > first_update) return false;
  const auto& deps = ops[index].deps;
  return last_sum < 0 || std::any_of(deps.begin(), deps.end(), [&](const Dep& d) {
           return d.lag == 0 && static_cast<int64_t>(d.op) == last_sum;
         });
}

}  // namespace tandem::exec
