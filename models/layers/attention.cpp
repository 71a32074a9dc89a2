// SPDX-License-Identifier: Apache-2.0
// Scaled dot-product attention without its projections: fused as in FlashAttention (Dao et al. 2022), where
// scores never reach memory, or as the products and softmax that frameworks ran before.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "models/layers/layer.h"
#include "models/layers/norm_kernel.h"

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
  int64_t heads, kv_heads, head_dim, query, key;  ///< of this device's part of the sequence
  int64_t value_dim = 0;                          ///< where values are of another width than keys
  int64_t window = 0;                             ///< keys that a query sees at most; 0: all
  int64_t parts = 1;                              ///< of a sample: `query` and `key` are of one of them
  int64_t grid = 0;                               ///< where parts are windows of an image: their side
  bool own_keys = true;                           ///< else those of another layer, and their values
  bool own_values = true;                         ///< else its keys, as they left their product
  int64_t values() const { return value_dim > 0 ? value_dim : head_dim; }
};

/// "keys_as_values": one product makes both (Gemma 4). "shared_keys": keys and values are those of an earlier
/// layer, which keeps both (Gemma 3n, Gemma 4).
void read_sharing(const LayerInput& in, Heads& h) {
  h.own_values = !in.attributes.boolean("keys_as_values", false);
  h.own_keys = !in.attributes.boolean("shared_keys", false);
  if (!h.own_keys && !h.own_values) in.attributes.fail("keys of another layer come with its values");
  if (!h.own_keys) h.own_values = false;
}

/// From one packed tensor {T, (heads + 2 kv_heads) head_dim}, where values may be of another width.
void read_packed(const LayerInput& in, const Shape& qkv, Heads& h) {
  const int64_t keys = h.own_keys ? h.kv_heads : 0, values = h.own_values ? h.kv_heads : 0;
  h.query = h.key = qkv[0];
  h.head_dim = in.attributes.integer("head_dim", std::max<int64_t>(1, qkv[1] / (h.heads + keys + values)));
  h.value_dim = in.attributes.integer("v_head_dim", h.head_dim);
  const int64_t width = checked_add(product({h.head_dim, h.heads + keys}), product({h.values(), values}));
  if (width != qkv[1]) {
    const bool usual = values > 0 && h.values() == h.head_dim;
    in.attributes.fail(
        usual ? fmt::format("the packed input has width {}, not ({} + 2 x {}) heads x {}", qkv[1], h.heads,
                            h.kv_heads, h.head_dim)
              : fmt::format("the packed input has width {}, not {}: of {} queries and {} keys of {}, and "
                            "{} values of {}",
                            qkv[1], width, h.heads, keys, h.head_dim, values, h.values()));
  }
}

/// From q {Tq, heads x head_dim}, k and v {Tk, kv_heads x head_dim}.
void read_three(const LayerInput& in, Heads& h) {
  const Shape &q = in.shapes[0], &k = in.shapes[1], &v = in.shapes.back();
  h.query = q[0];
  h.key = k[0];
  h.head_dim = in.attributes.integer("head_dim", std::max<int64_t>(1, q[1] / h.heads));
  if (q[1] != product({h.heads, h.head_dim})) {
    in.attributes.fail(fmt::format("q has width {}, not {} heads x {}", q[1], h.heads, h.head_dim));
  }
  h.value_dim = in.attributes.integer("v_head_dim", h.head_dim);
  if (k[0] != v[0] || k[1] != product({h.kv_heads, h.head_dim}) || v[1] != product({h.kv_heads, h.values()}))
    in.attributes.fail(fmt::format("k is {} and v is {}; they must be {{time, {} heads x {}}}{}", to_text(k),
                                   to_text(v), h.kv_heads, h.head_dim,
                                   h.values() == h.head_dim ? "" : fmt::format(" and x {}", h.values())));
}

/// Multi-head latent attention (DeepSeek-AI 2024, DeepSeek-V2, section 2.1): from q {T, heads x head_dim}, of
/// which `rope_dim` are rotated; k and v without positions {T, heads x (head_dim - rope_dim + v_head_dim)};
/// and their latent input, whose last rope_dim are the rotated part of all keys.
void read_latent(const LayerInput& in, Heads& h) {
  const int64_t rope = in.attributes.integer("rope_dim");
  h.head_dim = in.attributes.integer("head_dim");
  h.value_dim = in.attributes.integer("v_head_dim", h.head_dim);
  const Shape &q = in.shapes[0], &kv = in.shapes[1], &turned = in.shapes[2];
  h.query = h.key = q[0];
  if (rope >= h.head_dim || q[1] != product({h.heads, h.head_dim}) ||
      kv != Shape{q[0], product({h.heads, h.head_dim - rope + h.value_dim})} || turned[1] < rope)
    in.attributes.fail(
        fmt::format("q {}, k and v {} and what turns {} are not {} heads of {} ({} of them turn) "
                    "and {}",
                    to_text(q), to_text(kv), to_text(turned), h.heads, h.head_dim, rope, h.value_dim));
}

/// "parts": a sample is that many sequences that do not see each other. "grid": these are windows of an
/// image, with that many rows and columns and as many windows down as across, with learned scores; "shifted":
/// the image was moved by half a window (Liu et al. 2021, Swin Transformer, section 3.2).
void read_parts(const LayerInput& in, Heads& h) {
  h.parts = in.attributes.integer("parts", 1);
  h.grid = in.attributes.integer("grid", 0, 0);
  const bool shifted = in.attributes.boolean("shifted", false);
  const auto refuse = [&](std::initializer_list<const char*> keys) {
    for (const char* key : keys) {
      if (in.attributes.has(key))
        in.attributes.fail(fmt::format("\"{}\" is not understood of parts of a sequence", key));
    }
  };
  if (h.parts > 1 || h.grid > 0) refuse({"window", "bias_buckets", "rope_dim"});
  if (h.parts > 1) {
    if (h.query != h.key || h.query % h.parts != 0)
      in.attributes.fail(
          fmt::format("{} parts do not divide {} queries and {} keys", h.parts, h.query, h.key));
    if (in.context > 1 || in.sequence) in.attributes.fail("parts of a sequence that devices divide");
    h.query = h.key = h.query / h.parts;
  }
  if (h.grid == 0) {
    if (shifted) in.attributes.fail("\"shifted\" is of windows of a \"grid\"");
    return;
  }
  const auto across = static_cast<int64_t>(std::llround(std::sqrt(static_cast<double>(h.parts))));
  if (h.query != h.key || h.query != product({h.grid, h.grid}) || across * across != h.parts)
    in.attributes.fail(fmt::format("{} parts of {} elements are no square of windows of {} by {}", h.parts,
                                   h.query, h.grid, h.grid));
  refuse({"causal", "rotary", "sinks"});
}

Heads read_heads(const LayerInput& in) {
  Heads h{};
  h.window = in.attributes.integer("window", 0, 0);
  h.heads = in.attributes.integer("heads");
  h.kv_heads = in.attributes.integer("kv_heads", h.heads);
  if (h.heads % h.kv_heads != 0) {
    in.attributes.fail(fmt::format("{} key-value heads do not divide {} heads", h.kv_heads, h.heads));
  }
  if (in.split({Split::heads}) == Split::heads) {
    h.heads = in.part(h.heads, "heads");
    h.kv_heads = in.part(h.kv_heads, "key-value heads");
  }
  for (const Shape& s : in.shapes) {
    if (s.size() != 2) in.attributes.fail(fmt::format("takes inputs {{time, width}}, not {}", to_text(s)));
  }
  read_sharing(in, h);
  if (in.attributes.has("rope_dim")) {
    if (in.shapes.size() != 3) in.attributes.fail("with \"rope_dim\" takes three inputs");
    read_latent(in, h);
  } else if (in.shapes.size() == 1) {
    read_packed(in, in.shapes[0], h);
  } else if (in.shapes.size() == 3 || (in.shapes.size() == 2 && !h.own_values)) {
    read_three(in, h);
  } else {
    in.attributes.fail(fmt::format("takes one packed input or three (q, k, v), not {}", in.shapes.size()));
  }
  read_parts(in, h);
  return h;
}

/// Kept besides inputs and output: the log-sum of each row of scores; or, if not fused, the probabilities (in
/// fp32 and again in the inputs' format with "fp32_softmax"), with "dropout" its mask and result, with
/// "keeps_scores" the scores before a maximum. Then scores are in memory before and after the mask is added,
/// and their gradients before and after the softmax. Fused, the gradient of q is summed in fp32
/// (FlashAttention-2, section 3.1.2).
std::vector<OwnTensor> own_tensors(const LayerInput& in, const Heads& h, bool fused) {
  using Life = OwnTensor::Life;
  const bool wide = in.attributes.boolean("fp32_softmax", false) && in.element_size() < 4;
  const bool dropout = in.attributes.real("dropout", fused ? 0 : 0.1, 0, 0.999) > 0;
  const bool keeps_scores = in.attributes.boolean("keeps_scores", false);
  const int64_t rows = product({h.heads, h.query, h.parts});
  if (fused) {
    std::vector<OwnTensor> own{
        {rows, 4}, {rows, 4, Life::backward}, {product({rows, h.head_dim}), 4, Life::backward}};
    if (in.attributes.has("rope_dim")) own.push_back({product({h.heads, h.key, h.head_dim})});  // keys, whole
    if (in.context == 1) return own;
    const int64_t kv = product({h.kv_heads, h.key, h.head_dim + h.values()});  // on their way, twice
    own.insert(own.end(),
               {{2 * kv, 0, Life::forward}, {2 * kv, 0, Life::backward}, {2 * kv, 0, Life::backward}});
    return own;
  }
  const int64_t scores = product({rows, h.key}), size = wide ? 4 : 0;
  std::vector<OwnTensor> own{{scores, 0, Life::forward}, {scores, size, Life::forward}, {scores, size}};
  if (wide) own.push_back({scores});
  if (keeps_scores) own.push_back({scores});
  if (dropout) own.insert(own.end(), {{scores, 1}, {scores}});
  own.insert(own.end(), {{scores, size, Life::backward}, {scores, 0, Life::backward}});
  return own;
}

/// RMS norms of q and k ("qk_norm"; Henry et al. 2020): per head with a shared scale (Qwen3), over the
/// "heads" with a scale each (Cohere), or over the whole "width" (OLMo 2); and of values without a scale
/// ("value_norm", Gemma 4). As in row norms, eager code keeps the normalised rows, and the input in fp32
/// (norm.cpp).
void add_head_norms(const LayerInput& in, const Heads& h, Lowered& out) {
  const int64_t size = in.element_size();
  const bool divided = in.ways > 1 && in.split({Split::heads}) == Split::heads;
  const std::string over = in.attributes.text("qk_norm_over", "head");
  if (over != "head" && over != "heads" && over != "width")
    in.attributes.fail(fmt::format("\"qk_norm_over\" is \"{}\"; valid: head, heads, width", printable(over)));
  std::vector<std::tuple<std::string, int64_t, int64_t>> of = {{"q_scale", h.heads, h.query}};
  if (h.own_keys) of.emplace_back("k_scale", h.kv_heads, h.key);
  if (h.own_keys && in.attributes.boolean("value_norm", false)) of.emplace_back("", h.kv_heads, h.key);
  for (const auto& [name, heads, positions] : of) {
    const int64_t dim = name.empty() ? h.values() : h.head_dim, together = over == "width" ? heads : 1,
                  width = product({together, dim}),
                  scales = over == "head" ? h.head_dim : product({heads, h.head_dim}),
                  rows = product({heads, positions}) / together, all = product({in.batch, h.parts, rows});
    const auto kernel = [&](Pass pass, int64_t reads, int64_t flops) {
      Kernel k = norm(pass, all, width, reads, pass == Pass::backward_weights ? 0 : 1, flops, size);
      k.parts = pass == Pass::forward ? 4 : pass == Pass::backward_data ? 6 : 1;
      if (pass == Pass::backward_weights) k.written = Bytes{size} * scales;
      return k;
    };
    const int64_t numbers = in.attributes.boolean("qk_norm_bias", false) ? 2 : 1;
    const bool affine = in.attributes.boolean("qk_norm_affine", true) && !name.empty();
    if (affine)
      out.parameters.push_back({name, product({scales, numbers}), false, divided && over == "head"});
    out.forward.insert(out.forward.begin(), kernel(Pass::forward, 1, 4));
    for (Exchange& e : out.forward_exchanges) e = {e.kind, e.after + 1, e.before + 1, e.elements};
    out.backward_data.push_back(kernel(Pass::backward_data, 2, 8));
    if (affine) out.backward_weights.push_back(kernel(Pass::backward_weights, 2, 4));
    const int64_t of_sample = product({rows, h.parts});
    out.own.insert(out.own.end(), {{of_sample, 4}, {product({of_sample, width})}});
    // The input of the norm, in fp32; the attention keeps what left it.
    out.own.push_back({product({of_sample, width}), 4});
    out.own.back().composed = size < 4;
  }
}

/// "sinks": a learned score per head that takes part in the softmax (GPT-OSS). "bias_buckets": scores learned
/// for that many distances per head are added to all (Raffel et al. 2020, T5, section 2.1).
void add_learned_scores(const LayerInput& in, const Heads& h, Lowered& out) {
  const auto learned = [&](const char* name, int64_t elements) {
    out.parameters.push_back({name, elements});
    out.parameters.back().by_head = true;
  };
  if (in.attributes.boolean("sinks", false)) learned("sinks", h.heads);
  const int64_t side = 2 * h.grid - 1;
  const int64_t buckets = h.grid > 0 ? side * side : in.attributes.integer("bias_buckets", 0, 0);
  if (buckets == 0) return;
  const int64_t scores = product({h.heads, h.query, h.key}), size = in.element_size();
  learned("bias", product({buckets, h.heads}));
  out.forward.insert(out.forward.begin(),
                     copy_kernel(Pass::forward, product({h.query, h.key}), scores, size));
  out.backward_weights.push_back(
      reduction(Pass::backward_weights, product({in.batch, h.parts, scores}), buckets, size));
}

/// "relative": queries and keys are also multiplied with the keys and queries of that many positions, which
/// the layer's projections make of one table, and each score adds the entry of its distance (He et al. 2021,
/// DeBERTa, section 3.1).
void add_relative(const LayerInput& in, const Heads& h, Lowered& out) {
  const int64_t positions = in.attributes.integer("relative", 0, 0);
  if (positions == 0) return;
  const int64_t size = in.element_size(), width = product({h.heads, h.head_dim}),
                scores = product({in.batch, h.heads, h.query, h.key});
  for (const Pass pass : {Pass::forward, Pass::backward_data}) {
    auto& list = pass == Pass::forward ? out.forward : out.backward_data;
    std::vector<Kernel> all;
    for (const int64_t rows : {h.query, h.key}) {
      all.push_back(gemm(pass, 1, positions, width, width, size));
      for (int times = pass == Pass::forward ? 1 : 2; times > 0; --times)
        all.push_back(gemm(pass, product({in.batch, h.heads}), rows, positions, h.head_dim, size));
      all.push_back(copy_kernel(pass, product({in.batch, h.heads, rows, positions}), scores, size));
      all.push_back(elementwise(pass, scores, 2, size));
    }
    list.insert(list.begin(), all.begin(), all.end());
  }
  for (int i = 0; i < 2; ++i)
    out.backward_weights.push_back(gemm(Pass::backward_weights, 1, width, width, positions, size));
}

/// The scores of this device's queries with one device's keys, and their result. If the widths of values and
/// keys differ it is the mean of both, which gives forward's products exactly.
Kernel block_kernel(const LayerInput& in, const Heads& h, Pass pass, bool fused) {
  const bool windowed = h.window > 0 && h.window < h.key;
  const bool causal = in.attributes.boolean("causal", false) && !windowed;
  return attention_kernel(pass, product({in.batch, h.parts}), h.heads, h.kv_heads, h.query,
                          windowed ? h.window : h.key, (h.head_dim + h.values()) / 2, causal, fused,
                          in.element_size());
}

/// Attention over a sequence that devices divide: keys and values travel around the ring, one device's part
/// at a time, while the scores of the previous part are computed (Liu et al. 2023, Ring Attention;
/// Megatron-Core's context parallelism). With a causal mask each device has chunks i and last - i of 2 x
/// context, so that every part costs each device half of its scores. In backward their gradients follow one
/// part later. The parts' results are added up. Keys and values are concatenated for sending, and their
/// gradients split after receiving.
void add_ring(const LayerInput& in, const Heads& h, Pass pass, std::vector<Kernel>& kernels,
              std::vector<Exchange>& exchanges) {
  const bool forward = pass == Pass::forward;
  const int64_t q = product({in.batch, h.heads, h.query, forward ? h.values() : h.head_dim}),
                kv = product({in.batch, h.kv_heads, h.key, h.head_dim + h.values()});
  const Kernel packing = copy_kernel(pass, kv, kv, in.element_size());
  if (forward) kernels.push_back(packing);
  const auto first = static_cast<uint32_t>(kernels.size());
  const auto now = [&] { return static_cast<uint32_t>(kernels.size()); };
  for (int32_t part = 0; part < in.context; ++part) {
    if (part > 0) exchanges.push_back({Exchange::Kind::shift, first, now(), kv});
    kernels.push_back(block_kernel(in, h, pass, true));
    if (part == 0) continue;
    if (!forward)  // the gradients of the part before, to which this one's are added
      exchanges.push_back({Exchange::Kind::shift, now() - 1, now(), kv});
    kernels.push_back(elementwise(pass, forward ? q : checked_add(q, kv), 2, in.element_size(), 2));
  }
  if (!forward) kernels.push_back(packing);
}

/// One kernel each way, or with positions two: rotary ones are one pass over q and k (3 FLOPs an element);
/// multi-head latent attention also puts the two parts of its keys together.
Lowered attention(const LayerInput& in) {
  const Heads h = read_heads(in);
  const bool rotary = in.attributes.boolean("rotary", false), latent = in.attributes.has("rope_dim");
  const bool fused = in.attributes.boolean("fused", true);
  in.attributes.boolean("causal", false);
  if (in.context > 1 && (!fused || h.window > 0))
    in.attributes.fail("attention over a sequence that devices divide must be fused and without a window");
  const int64_t size = in.element_size();
  Lowered out;
  out.output = {product({h.query, h.parts}), product({h.heads, h.values()})};
  for (const Pass pass : {Pass::forward, Pass::backward_data}) {
    const bool forward = pass == Pass::forward;
    auto& list = forward ? out.forward : out.backward_data;
    std::vector<Kernel> turning;
    if (rotary && !latent) {
      const int64_t turned =
          product({in.batch, h.parts, h.head_dim,
                   checked_add(product({h.heads, h.query}), h.own_keys ? product({h.kv_heads, h.key}) : 0)});
      turning.push_back(elementwise(pass, turned, 1, size, 3));
      // Composed: halves swapped (negate, concatenate), two products, their sum.
      turning.back().parts = 5;
      turning.back().eager = true;
    }
    if (latent) {
      const int64_t vectors = product({in.batch, h.heads, h.query}), rope = in.attributes.integer("rope_dim");
      turning.push_back(elementwise(pass, product({vectors, rope}), 1, size, 3));
      turning.push_back(
          copy_kernel(pass, product({vectors, h.head_dim}), product({vectors, h.head_dim}), size));
    }
    if (forward) list = turning;
    if (in.context > 1)
      add_ring(in, h, pass, list, forward ? out.forward_exchanges : out.backward_exchanges);
    else
      list.push_back(block_kernel(in, h, pass, fused));
    if (!forward) list.insert(list.end(), turning.begin(), turning.end());
  }
  out.cheap = Lowered::Cheap::attention;
  out.keeps_input = out.keeps_output = true;
  out.own = own_tensors(in, h, fused);
  if (in.attributes.boolean("qk_norm", false)) {
    add_head_norms(in, h, out);
  } else if (in.attributes.has("qk_norm_over")) {
    in.attributes.fail("\"qk_norm_over\" is of a \"qk_norm\"");
  }
  // Values are a view of the packed projection, all of which is kept along with q and k with positions.
  // Unfused products have a copy of the values instead.
  if (in.attributes.boolean("values_in_place", false) && fused) {
    const int64_t turned = product(
        {h.parts, h.head_dim, checked_add(product({h.heads, h.query}), product({h.kv_heads, h.key}))});
    out.own.push_back({turned, 0, OwnTensor::Life::kept, false, true});
  }
  add_learned_scores(in, h, out);
  add_relative(in, h, out);
  // A boolean mask for that many positions in every layer, in elements of 4 bytes.
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
