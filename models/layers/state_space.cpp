// SPDX-License-Identifier: Apache-2.0
// State space models: a causal convolution over the last positions, a scan over all of them, and a gate.
// Mamba-2 in chunks, as matrix products (Dao and Gu 2024, arXiv 2405.21060, section 6); Mamba position by
// position (Gu and Dao 2023, arXiv 2312.00752, section 3.3). Backward recomputes everything between its input
// and the scan's result, as the authors' kernels do.
#include <fmt/format.h>

#include "models/layers/causal_conv.h"
#include "models/layers/layer.h"

namespace tandem::models {

namespace {

constexpr int64_t kSums = 2;  ///< a product's two operands each get a gradient

int64_t up(int64_t count, int64_t part) { return (count + part - 1) / part * part; }

/// The gate's activation, its product with the scan's result, and a norm of that.
void add_gate(const LayerInput& in, int64_t width, bool normed, Lowered& out) {
  const int64_t size = in.element_size(), count = product({in.batch, out.output[0], width});
  out.forward.push_back(elementwise(Pass::forward, count, 2, size, normed ? 9 : 5));
  out.backward_data.insert(out.backward_data.begin(), elementwise(Pass::backward_data, count, 3, size, 12));
  if (!normed) return;
  out.parameters.push_back({"norm", width});
  out.backward_weights.push_back(reduction(Pass::backward_weights, count, width, size));
  out.own.push_back({out.output[0], 4});
}

struct StateHeads {
  int64_t heads, head_dim, state, groups, chunk, time;
  int64_t inner() const { return product({heads, head_dim}); }
  int64_t mixed() const { return inner() + 2 * product({groups, state}); }  ///< x, B and C
};

/// Scores of a chunk's positions, their results, the chunk's state, the earlier chunks' contribution.
void add_chunks(const LayerInput& in, const StateHeads& h, Lowered& out) {
  const int64_t size = in.element_size(), chunks = up(h.time, h.chunk) / h.chunk,
                all = product({in.batch, chunks, h.heads});
  const auto add = [&](int64_t batch, int64_t m, int64_t n, int64_t k) {
    out.forward.push_back(gemm(Pass::forward, batch, m, n, k, size));
    for (int64_t i = 0; i < kSums; ++i)
      out.backward_data.push_back(gemm(Pass::backward_data, batch, m, i == 0 ? k : n, i == 0 ? n : k, size));
  };
  add(all, h.chunk, h.chunk, h.state);
  add(all, h.chunk, h.head_dim, h.chunk);
  add(all, h.head_dim, h.state, h.chunk);
  add(all, h.chunk, h.head_dim, h.state);
  const int64_t states = product({all, h.head_dim, h.state});
  out.forward.push_back(elementwise(Pass::forward, states, 1, 4, 2));  // from chunk to chunk
  out.backward_data.push_back(elementwise(Pass::backward_data, states, 2, 4, 4));
  out.own.push_back({states / in.batch, 4, OwnTensor::Life::forward});
  out.own.push_back({states / in.batch, 4, OwnTensor::Life::backward});
}

Lowered mamba2(const LayerInput& in) {
  const Shape& shape = in.only(2);
  const Attributes& a = in.attributes;
  const StateHeads h{a.integer("heads"),     a.integer("head_dim"),   a.integer("state"),
                     a.integer("groups", 1), a.integer("chunk", 256), shape[0]};
  if (shape[1] != h.inner() + h.mixed() + h.heads)
    a.fail(fmt::format("takes the gate, x, B, C and the steps of {} heads: {{time, {}}}, not {}", h.heads,
                       h.inner() + h.mixed() + h.heads, to_text(shape)));
  if (h.heads % h.groups != 0) a.fail(fmt::format("{} groups do not divide {} heads", h.groups, h.heads));
  Lowered out;
  out.output = {h.time, h.inner()};
  add_causal_conv(in, h.time, h.mixed(), a.integer("kernel", 4), a.boolean("conv_bias", true), out);
  for (const char* name : {"step_bias", "decay", "skip"}) out.parameters.push_back({name, h.heads});
  add_chunks(in, h, out);
  add_gate(in, h.inner(), a.boolean("norm", true), out);
  out.own.push_back({product({h.time, h.inner()})});  // of the scan
  out.keeps_input = true;
  return out;
}

Lowered mamba(const LayerInput& in) {
  const Shape& shape = in.only(2);
  const Attributes& a = in.attributes;
  const int64_t inner = shape[1] / 2, state = a.integer("state", 16), rank = a.integer("rank"),
                time = shape[0], size = in.element_size(), rows = product({in.batch, time}),
                made = rank + 2 * state;
  if (shape[1] % 2 != 0) a.fail(fmt::format("takes x and its gate, of one width: {} is odd", shape[1]));
  Lowered out;
  out.output = {time, inner};
  add_causal_conv(in, time, inner, a.integer("kernel", 4), a.boolean("conv_bias", true), out);
  const auto linear = [&](const char* name, int64_t from, int64_t to) {
    out.parameters.push_back({name, product({from, to})});
    out.forward.push_back(gemm(Pass::forward, 1, rows, to, from, size));
    out.backward_data.push_back(gemm(Pass::backward_data, 1, rows, from, to, size));
    out.backward_weights.push_back(gemm(Pass::backward_weights, 1, from, to, rows, size));
  };
  linear("made", inner, made);  // steps' rank, B, C
  linear("steps", rank, inner);
  out.parameters.insert(out.parameters.end(),
                        {{"step_bias", inner}, {"decay", product({inner, state})}, {"skip", inner}});
  if (a.boolean("norms", false)) out.parameters.push_back({"norms", made});
  const int64_t count = product({rows, inner});
  // Decay, input and sum of each state, and its part of the result.
  out.forward.push_back(elementwise(Pass::forward, count, 2, size, product({9, state})));
  out.backward_data.push_back(elementwise(Pass::backward_data, count, 4, size, product({22, state})));
  add_gate(in, inner, false, out);
  out.own.insert(out.own.end(),
                 {{product({time, inner})}, {product({time, inner})}, {product({time, made})}});
  out.keeps_input = true;
  return out;
}

/// The input is B, C and x: C times the convolution of B times x (Liquid AI's LFM2).
Lowered short_conv(const LayerInput& in) {
  const Shape& shape = in.only(2);
  if (shape[1] % 3 != 0)
    in.attributes.fail(fmt::format("takes three parts of one width, and {} is no such width", shape[1]));
  const int64_t width = shape[1] / 3, count = product({in.batch, shape[0], width}), size = in.element_size();
  Lowered out;
  out.output = {shape[0], width};
  out.forward = {elementwise(Pass::forward, count, 2, size)};
  out.backward_data = {elementwise(Pass::backward_data, count, 3, size, 2)};
  add_causal_conv(in, shape[0], width, in.attributes.integer("kernel", 3),
                  in.attributes.boolean("bias", false), out);
  out.forward.push_back(elementwise(Pass::forward, count, 2, size));
  out.backward_data.push_back(elementwise(Pass::backward_data, count, 3, size, 2));
  out.own.push_back({product({shape[0], width})});  // what the convolution reads
  out.own.push_back({product({shape[0], width})});  // what it makes
  out.keeps_input = true;
  return out;
}

}  // namespace

void register_state_space(Registry<LayerType>& registry) {
  registry.add({"mamba2", "state space model in chunks, with its convolution and gate", mamba2});
  registry.add({"mamba", "selective state space model, with its convolution, products and gate", mamba});
  registry.add({"short-conv", "causal convolution of each feature between two gates", short_conv});
}

}  // namespace tandem::models
