// SPDX-License-Identifier: Apache-2.0
// Attention whose keys and values are summed in a state, chunk by chunk: with decays (Qin et al. 2024,
// Lightning Attention-2, arXiv 2401.04658), and by the delta rule, which first subtracts what the state holds
// for a key (Yang et al. 2024, Gated Delta Networks, arXiv 2412.06464, section 3.3).
#include <fmt/format.h>

#include <algorithm>

#include "models/layers/causal_conv.h"
#include "models/layers/layer.h"

namespace tandem::models {

namespace {

struct Sizes {
  int64_t keys, values, key_dim, value_dim, chunk, time;
  bool delta;
  int64_t mixed() const { return 2 * product({keys, key_dim}) + out(); }
  int64_t out() const { return product({values, value_dim}); }
};

/// Inputs: queries, keys and values in one; a gate of the result; with "delta" also the decays, per head or
/// per feature, and the strength with which each key is written.
Sizes sizes_of(const LayerInput& in) {
  const Attributes& a = in.attributes;
  Sizes s{a.integer("heads"),     0, a.integer("head_dim"),    0,
          a.integer("chunk", 64), 0, a.boolean("delta", false)};
  s.values = a.integer("value_heads", s.keys);
  s.value_dim = a.integer("value_dim", s.key_dim);
  const std::size_t count = s.delta ? 4 : 2;
  if (in.shapes.size() != count) a.fail(fmt::format("takes {} inputs, not {}", count, in.shapes.size()));
  if (s.values % s.keys != 0) a.fail(fmt::format("{} heads do not divide {} of values", s.keys, s.values));
  s.time = in.shapes[0][0];
  if (!s.delta) s.chunk = std::min(s.chunk, s.time);  // the delta rule's kernels fill their last chunk up
  const int64_t decays = s.delta ? in.shapes[2].back() : s.values;
  const std::vector<Shape> want = {
      {s.time, s.mixed()}, {s.time, s.out()}, {s.time, decays}, {s.time, s.values}};
  for (std::size_t i = 0; i < count; ++i) {
    if (in.shapes[i] != want[i])
      a.fail(fmt::format("input {} is {}, not {}", i + 1, to_text(in.shapes[i]), to_text(want[i])));
  }
  if (decays != s.values && decays != product({s.values, s.key_dim}))
    a.fail(fmt::format("{} decays are neither one a head nor one a feature of {} heads", decays, s.values));
  return s;
}

/// The products of a chunk. Solving for what the delta rule writes is a kernel of the chunk's scores.
void add_chunks(const LayerInput& in, const Sizes& s, Lowered& out) {
  const int64_t size = in.element_size(), chunks = (s.time + s.chunk - 1) / s.chunk,
                all = product({in.batch, chunks, s.values});
  const auto add = [&](int64_t m, int64_t n, int64_t k) {
    out.forward.push_back(gemm(Pass::forward, all, m, n, k, size));
    out.backward_data.push_back(gemm(Pass::backward_data, all, m, k, n, size));
    out.backward_data.push_back(gemm(Pass::backward_data, all, k, n, m, size));
  };
  add(s.chunk, s.chunk, s.key_dim);      // queries with keys
  add(s.chunk, s.value_dim, s.chunk);    // these scores with values
  add(s.chunk, s.value_dim, s.key_dim);  // queries with the state
  add(s.key_dim, s.value_dim, s.chunk);  // what the chunk adds to it
  if (s.delta) {
    add(s.chunk, s.chunk, s.key_dim);      // keys with keys
    add(s.chunk, s.value_dim, s.key_dim);  // keys with the state
    const int64_t solved = product({all, s.chunk, s.key_dim + s.value_dim});
    out.forward.push_back(elementwise(Pass::forward, solved, 1, size, s.chunk));
    out.backward_data.push_back(elementwise(Pass::backward_data, solved, 2, size, 2 * s.chunk));
  }
  const int64_t states = product({chunks, s.values, s.key_dim, s.value_dim});
  out.own.push_back({states, 0, OwnTensor::Life::forward});
  out.own.push_back({states, 0, OwnTensor::Life::backward});
}

Lowered linear_attention(const LayerInput& in) {
  const Sizes s = sizes_of(in);
  const Attributes& a = in.attributes;
  const int64_t size = in.element_size(), kernel = a.integer("kernel", 0, 0),
                mixed = product({in.batch, s.time, s.mixed()}), made = product({in.batch, s.time, s.out()});
  Lowered out;
  out.output = {s.time, s.out()};
  if (kernel > 0) {
    add_causal_conv(in, s.time, s.mixed(), kernel, false, out);
    out.own.push_back({product({s.time, s.mixed()})});
  }
  out.forward.push_back(elementwise(Pass::forward, mixed, 1, size, 5));  // of the activation
  out.backward_data.push_back(elementwise(Pass::backward_data, mixed, 2, size, 8));
  out.own.push_back({product({s.time, s.mixed()})});
  if (s.delta) {
    out.parameters.push_back({"step_bias", in.shapes[2].back()});
    out.parameters.push_back({"decay", s.values});
  }
  add_chunks(in, s, out);
  const int64_t scales = a.boolean("norm_width", false) ? s.out() : s.value_dim;
  out.parameters.push_back({"norm", scales});
  out.forward.push_back(elementwise(Pass::forward, made, 2, size, 9));  // the norm and its gate
  out.backward_data.push_back(elementwise(Pass::backward_data, made, 3, size, 16));
  out.backward_weights.push_back(reduction(Pass::backward_weights, made, scales, size));
  out.own.push_back({product({s.time, s.out()})});
  out.own.push_back({product({s.time, s.values}), 4});
  out.keeps_input = true;
  return out;
}

}  // namespace

void register_linear_attention(Registry<LayerType>& registry) {
  registry.add({"linear-attention", "attention by a state of keys and values: with decays, by the delta rule",
                linear_attention});
}

}  // namespace tandem::models
