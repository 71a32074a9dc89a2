// SPDX-License-Identifier: Apache-2.0
// Scaled dot-product attention; scores are made again in the backward pass.
#include "exec/lower/passes/calls.h"

namespace tandem::exec {

namespace {

/// The packed tensor {T, (heads + 2 kv heads) x head size}, or three tensors.
void attention(LayerCalls& l) {
  const Lowered& w = l.lowered();
  const Attributes attributes(l.layer().attributes);
  if (attributes.boolean("qk_norm", false))
    throw InputError(l.layer().attributes.place(), "norms of queries and keys cannot be executed yet");
  for (const char* key : {"rope_dim", "window", "sinks", "bias_buckets"}) {
    if (attributes.has(key))
      throw InputError(l.layer().attributes.place(),
                       std::string("attention with \"") + key + "\" cannot be executed yet");
  }
  const bool rotary = attributes.boolean("rotary", false), packed = l.inputs() == 1;
  // {batch, heads, kv heads, query, key, head size, causal}: of the model's own kernel, behind the turning.
  std::vector<int64_t> shape = w.forward.back().shape;
  const int64_t batch = shape[0], heads = shape[1], kv = shape[2], query = shape[3], key = shape[4],
                size = shape[5];
  const int64_t q_row = (packed ? heads + 2 * kv : heads) * size, kv_row = packed ? q_row : kv * size;
  const int64_t k_offset = packed ? heads * size : 0, v_offset = packed ? (heads + kv) * size : 0;
  shape.resize(7);  // up to `causal`: whether scores are kept is the backend's own choice
  shape.insert(shape.end(), {q_row, kv_row, 0, k_offset, v_offset});

  TensorId q = l.in(0), k = l.in(packed ? 0 : 1);
  const TensorId v = l.in(packed ? 0 : 2), log_sums = l.keep(batch * heads * query);
  const auto turn = [&](Pass pass, TensorId to, TensorId from, bool keys, bool back,
                        std::vector<Kernel> kernels) {
    l.call(make_call(Function::rotary, pass, {to, from},
                     {batch, keys ? key : query, keys ? kv : heads, size, keys ? kv_row : q_row,
                      keys ? k_offset : 0, back ? 1 : 0},
                     std::move(kernels)));
  };
  if (rotary) {
    const TensorId tq = l.keep(batch * query * q_row, true),
                   tk = packed ? tq : l.keep(batch * key * kv_row, true);
    turn(Pass::forward, tq, q, false, false, {w.forward.front()});
    turn(Pass::forward, tk, k, true, false, {});
    q = tq;
    k = tk;
  }
  l.call(
      make_call(Function::attention, Pass::forward, {l.out(), q, k, v, log_sums}, shape, {w.forward.back()}));
  if (!l.needs_d_in(0) && (packed || (!l.needs_d_in(1) && !l.needs_d_in(2)))) return;
  const auto gradient = [&](std::size_t i) {
    if (packed) return l.d_in(0);
    return l.needs_d_in(i) ? l.d_in(i) : l.scratch(l.batch() * elements(l.shape(i)), true);
  };
  const TensorId dq = gradient(0), dk = packed ? dq : gradient(1), dv = packed ? dq : gradient(2);
  l.call(make_call(Function::attention_backward, Pass::backward_data,
                   {dq, dk, dv, q, k, v, l.out(), l.d_out(), log_sums}, shape, {w.backward_data.front()}));
  if (!rotary) return;
  turn(Pass::backward_data, dq, dq, false, true, {w.backward_data.back()});
  turn(Pass::backward_data, dk, dk, true, true, {});
}

}  // namespace

void register_attention(Registry<LayerExecution>& registry) {
  registry.add({"attention", "a head at a time: two gemms and a softmax", attention});
}

}  // namespace tandem::exec
