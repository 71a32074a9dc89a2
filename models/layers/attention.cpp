// SPDX-License-Identifier: Apache-2.0
// Scaled dot-product attention without its projections: fused as in FlashAttention (Dao et al. 2022), where
// scores never reach memory, or as the products and softmax that frameworks ran before.
#include <fmt/format.h>

#include <algorithm>

#include "models/layer.h"

namespace tandem::models {

Kernel attention_kernel(Pass pass, int64_t batch, int64_t heads, int64_t kv_heads, int64_t query, int64_t key,
                        int64_t head_dim, bool causal, bool fused, int64_t size) {
  const Bytes q = Bytes{size} * product({batch, heads, query, head_dim});
  const Bytes kv = Bytes{size} * product({batch, kv_heads, key, head_dim, 2});
  // Scores and values: two products of 2 x query x key x head_dim FLOPs; backward makes five.
  const int64_t macs = product({batch, heads, query, key, head_dim});
  const Flops two = Flops{causal ? 2 : 4} * macs;
  Kernel k{KernelKind::attention,
           pass,
           {batch, heads, kv_heads, query, key, head_dim, causal ? 1 : 0, fused ? 1 : 0},
           two,
           q + kv,
           q};
  if (pass == Pass::backward_data) {
    k.flops = Flops{causal ? 5 : 10} * macs;
    k.read = q * 3 + kv;
    k.written = q + kv;
  }
  return k;
}

namespace {

struct Heads {
  int64_t heads, kv_heads, head_dim, query, key;
};

/// From one packed tensor {T, (heads + 2 kv_heads) head_dim}.
void read_packed(const LayerInput& in, const Shape& qkv, Heads& h) {
  const int64_t vectors = h.heads + 2 * h.kv_heads;
  h.query = h.key = qkv[0];
  h.head_dim = in.attributes.integer("head_dim", std::max<int64_t>(1, qkv[1] / vectors));
  if (product({h.head_dim, vectors}) != qkv[1]) {
    in.attributes.fail(fmt::format("the packed input has width {}, not ({} + 2 x {}) heads x {}", qkv[1],
                                   h.heads, h.kv_heads, h.head_dim));
  }
}

/// From q {Tq, heads x head_dim}, k and v {Tk, kv_heads x head_dim}.
void read_three(const LayerInput& in, Heads& h) {
  const Shape &q = in.shapes[0], &k = in.shapes[1], &v = in.shapes[2];
  h.query = q[0];
  h.key = k[0];
  h.head_dim = in.attributes.integer("head_dim", std::max<int64_t>(1, q[1] / h.heads));
  if (q[1] != product({h.heads, h.head_dim})) {
    in.attributes.fail(fmt::format("q has width {}, not {} heads x {}", q[1], h.heads, h.head_dim));
  }
  if (k != v || k[1] != product({h.kv_heads, h.head_dim})) {
    in.attributes.fail(fmt::format("k is {} and v is {}; both must be {{time, {} heads x {}}}", to_text(k),
                                   to_text(v), h.kv_heads, h.head_dim));
  }
}

Heads read_heads(const LayerInput& in) {
  Heads h{};
  h.heads = in.attributes.integer("heads");
  h.kv_heads = in.attributes.integer("kv_heads", h.heads);
  if (h.heads % h.kv_heads != 0) {
    in.attributes.fail(fmt::format("{} key-value heads do not divide {} heads", h.kv_heads, h.heads));
  }
  for (const Shape& s : in.shapes) {
    if (s.size() != 2) in.attributes.fail(fmt::format("takes inputs {{time, width}}, not {}", to_text(s)));
  }
  if (in.shapes.size() == 1) {
    read_packed(in, in.shapes[0], h);
  } else if (in.shapes.size() == 3) {
    read_three(in, h);
  } else {
    in.attributes.fail(fmt::format("takes one packed input or three (q, k, v), not {}", in.shapes.size()));
  }
  return h;
}

/// What stays beside inputs and output: the log-sum of each row of scores; or, where it is not fused, the
/// probabilities (in fp32 and again in the inputs' format with "fp32_softmax"), with "dropout" its mask and
/// what it leaves of them, with "keeps_scores" the scores that a maximum was taken of. Then scores lie in
/// memory before and after the mask is added, and their gradients before and after the softmax. Fused, the
/// gradient of q is summed in fp32 (FlashAttention-2, section 3.1.2).
std::vector<OwnTensor> own_tensors(const LayerInput& in, const Heads& h, bool fused) {
  using Life = OwnTensor::Life;
  const bool wide = in.attributes.boolean("fp32_softmax", false) && in.element_size() < 4;
  const bool dropout = in.attributes.real("dropout", fused ? 0 : 0.1, 0, 0.999) > 0;
  const bool keeps_scores = in.attributes.boolean("keeps_scores", false);
  const int64_t rows = product({h.heads, h.query});
  if (fused) return {{rows, 4}, {rows, 4, Life::backward}, {product({rows, h.head_dim}), 4, Life::backward}};
  const int64_t scores = product({rows, h.key}), size = wide ? 4 : 0;
  std::vector<OwnTensor> own{{scores, 0, Life::forward}, {scores, size, Life::forward}, {scores, size}};
  if (wide) own.push_back({scores});
  if (keeps_scores) own.push_back({scores});
  if (dropout) own.insert(own.end(), {{scores, 1}, {scores}});
  own.insert(own.end(), {{scores, size, Life::backward}, {scores, 0, Life::backward}});
  return own;
}

/// One kernel each way. Rotary positions are one pass over q and k each way (3
/// FLOPs an element).
Lowered attention(const LayerInput& in) {
  const Heads h = read_heads(in);
  const bool causal = in.attributes.boolean("causal", false);
  const bool rotary = in.attributes.boolean("rotary", false);
  const bool fused = in.attributes.boolean("fused", true);
  const int64_t size = in.element_size();
  Lowered out;
  out.output = {h.query, product({h.heads, h.head_dim})};
  for (const Pass pass : {Pass::forward, Pass::backward_data}) {
    auto& list = pass == Pass::forward ? out.forward : out.backward_data;
    list = {attention_kernel(pass, in.batch, h.heads, h.kv_heads, h.query, h.key, h.head_dim, causal, fused,
                             size)};
    if (!rotary) continue;
    const int64_t turned = product(
        {in.batch, h.head_dim, checked_add(product({h.heads, h.query}), product({h.kv_heads, h.key}))});
    list.insert(pass == Pass::forward ? list.begin() : list.end(), elementwise(pass, turned, 1, size, 3));
  }
  out.keeps_input = out.keeps_output = true;
  out.own = own_tensors(in, h, fused);
  // A boolean mask for so many positions in every layer, in elements of 4 bytes.
  const int64_t mask = in.attributes.integer("mask_positions", 0, 0);
  out.buffers = product({mask, mask}) / 4;
  return out;
}

}  // namespace

void register_attention(Registry<LayerType>& registry) {
  registry.add(
      {"attention", "scaled dot-product attention: multi-head, grouped-query, causal, rotary", attention});
}

}  // namespace tandem::models
