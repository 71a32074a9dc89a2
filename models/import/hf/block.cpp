// SPDX-License-Identifier: Apache-2.0
// A block of a decoder-only transformer as layers of a model file.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/import/hf/layers.h"

namespace tandem::models {

JsonWriter hf_linear(const std::string& name, const std::string& split, const std::string& features,
                     bool bias, const std::string& from) {
  JsonWriter out = {{"type", "linear"}, {"name", name}, {"split", split}, {"features", features}};
  if (!from.empty()) out["from"] = from;
  if (!bias) out["bias"] = false;
  return out;
}

JsonWriter hf_from_several(const std::string& type, std::initializer_list<std::string> inputs) {
  JsonWriter from = JsonWriter::array();
  for (const std::string& input : inputs) from.push_back(input);
  JsonWriter out = {{"type", type}};
  out["from"] = std::move(from);
  return out;
}

namespace {

/// `apart`: matrices in the library's code if they are not packed into one.
JsonWriter hf_packed(JsonWriter layer, bool packed, int apart = 1) {
  if (packed) layer["packed"] = true;
  if (!packed && apart > 1) layer["apart"] = apart;
  return layer;
}

/// Layers of one block, in order.
class Block {
 public:
  Block(const Decoder& decoder, const Decoder::Layer& layer)
      : d_(decoder), layer_(layer), activation_(hf_activation(decoder.activation, *decoder.config)) {}
  JsonWriter write();

 private:
  void add(JsonWriter layer) { layers_.push_back(std::move(layer)); }
  void norm(const std::string& name, const std::string& from = "");
  void linear(const std::string& name, const std::string& split, const std::string& features, bool bias,
              const std::string& from = "") {
    add(hf_linear(name, split, features, bias, from));
  }
  void activate(const std::string& name) { add(hf_activation_layer(activation_, name)); }
  JsonWriter attention(std::initializer_list<std::string> from) const;
  void attend(const std::string& reads);
  void attend_latent(const std::string& reads);
  void attend_compressed(const std::string& reads);
  void gate_attention(const std::string& reads);
  std::string index(const std::string& queries, const std::string& reads);
  std::string streams_in(const std::string& from, const char* name);
  /// Adds to the residual stream, or to all of them.
  void sum(std::initializer_list<std::string> of, const char* name = nullptr);
  void add_per_layer();
  /// Name of a model parameter, or of its variant for windowed layers.
  std::string own(const char* name) const {
    const bool other = std::string_view(name) == "heads"      ? d_.window_heads > 0
                       : std::string_view(name) == "kv_heads" ? d_.window_kv_heads > 0
                                                              : d_.window_head_dim > 0;
    return layer_.windowed && other ? fmt::format("window_{}", name) : name;
  }
  void mix(const std::string& reads);
  void attend_or_mix(const std::string& reads);
  void add_named(JsonWriter layer, const char* name) {
    layer["name"] = name;
    add(std::move(layer));
  }
  void experts(const std::string& reads);
  void experts_beside(const std::string& reads);
  JsonWriter routed(std::initializer_list<std::string> from) const;
  void feed_forward(const std::string& reads);
  void dense(const std::string& prefix, const std::string& features, bool bias, const std::string& reads);

  const Decoder& d_;
  const Decoder::Layer& layer_;
  const HfActivation activation_;
  JsonWriter layers_ = JsonWriter::array();
};

void Block::norm(const std::string& name, const std::string& from) {
  JsonWriter out = hf_norm(d_, name);
  if (!from.empty()) out["from"] = from;
  add(std::move(out));
}

/// Without sizes that only some models have.
JsonWriter Block::attention(std::initializer_list<std::string> from) const {
  JsonWriter out = from.size() > 0 ? hf_from_several("attention", from) : JsonWriter{{"type", "attention"}};
  out["split"] = "heads";
  for (const char* key : {"heads", "head_dim"}) out[key] = "=" + own(key);
  out["fused"] = "=fused";
  if (d_.causal) out["causal"] = true;
  if (d_.rotary) out["rotary"] = true;
  if (d_.sinks == 1 || (d_.sinks == 2 && layer_.windowed)) out["sinks"] = true;
  if (layer_.windowed) out["window"] = d_.window;
  if (!d_.fused) {
    out["dropout"] = d_.dropout;
    out["fp32_softmax"] = true;
  }
  return out;
}

void Block::attend(const std::string& reads) {
  const std::string heads = own("heads"), keys = own("kv_heads"), dim = own("head_dim");
  const bool one = d_.keys_as_values && !layer_.windowed, wide = d_.value_dim > 0;
  const std::string features = layer_.shares ? fmt::format("={}*{}", heads, dim)
                               : one         ? fmt::format("=({}+{})*{}", heads, keys, dim)
                               : wide        ? fmt::format("=({}+{})*{}+{}*value_dim", heads, keys, dim, keys)
                                             : fmt::format("=({}+2*{})*{}", heads, keys, dim);
  add(hf_packed(
      hf_linear("qkv", "columns", features, d_.qkv_bias, layer_.indexed ? index(reads, reads) : reads),
      d_.packed_qkv,
      layer_.shares ? 1
      : one         ? 2
                    : 3));
  JsonWriter out = attention({});
  out["kv_heads"] = "=" + keys;
  if (wide) out["v_head_dim"] = "=value_dim";
  if (layer_.shares) out["shared_keys"] = true;
  if (one && !layer_.shares) out["keys_as_values"] = true;
  if (d_.packed_qkv && d_.rotary && d_.fused) out["values_in_place"] = true;
  constexpr const char* kOver[] = {"", "head", "width", "heads"};
  if (d_.qk_norm > 0) out["qk_norm"] = true;
  if (d_.value_norm && !layer_.shares) out["value_norm"] = true;
  if (d_.qk_norm > 1) out["qk_norm_over"] = kOver[d_.qk_norm];
  if (d_.qk_norm > 0 && !d_.qk_scales) out["qk_norm_affine"] = false;
  if (d_.qk_norm > 0 && d_.qk_norm_bias) out["qk_norm_bias"] = true;
  add(std::move(out));
}

/// The indexer of an attention; it passes its first input on.
std::string Block::index(const std::string& queries, const std::string& reads) {
  JsonWriter indexer = hf_from_several("indexer", {queries, reads});
  indexer["heads"] = d_.index_heads;
  indexer["head_dim"] = d_.index_dim;
  if (d_.index_block > 0) indexer["blocks"] = d_.index_block;
  if (d_.streams > 0) indexer["ratio"] = d_.sparse_ratio;
  add_named(std::move(indexer), "indexer");
  return "indexer";
}

/// DeepSeek-AI 2026, DeepSeek-V4, section 2.3.
void Block::attend_compressed(const std::string& reads) {
  linear("query_down", "whole", "=query_rank", false, reads);
  norm("query_norm");
  linear("query", "whole", "=heads*head_dim", false,
         layer_.indexed ? index("query_norm", reads) : "query_norm");
  linear("kv", "whole", "=head_dim", false, reads);
  norm("kv_norm");
  const bool more = layer_.indexed || layer_.compressed;
  if (more) {
    JsonWriter compressor = {{"type", "compressor"}, {"from", reads}, {"features", "=head_dim"}};
    compressor["ratio"] = layer_.indexed ? d_.sparse_ratio : d_.heavy_ratio;
    if (layer_.indexed) compressor["overlap"] = true;
    add_named(std::move(compressor), "compressed");
  }
  JsonWriter out = more ? hf_from_several("compressed-attention", {"query", "kv_norm", "compressed"})
                        : hf_from_several("compressed-attention", {"query", "kv_norm"});
  for (const char* key : {"heads", "head_dim", "fused"}) out[key] = std::string("=") + key;
  out["window"] = d_.window;
  if (layer_.indexed) out["top"] = d_.top;
  if (d_.rope_dim > 0) out["rope_dim"] = "=rope_dim";
  if (d_.dropout > 0) out["dropout"] = d_.dropout;
  add(std::move(out));
  add_named(
      {{"type", "grouped-linear"}, {"groups", d_.out_groups}, {"features", d_.out_groups * d_.out_rank}},
      "projection_down");
}

/// DeepSeek-AI 2024, DeepSeek-V2, figure 3 and section 2.1.
void Block::attend_latent(const std::string& reads) {
  if (d_.query_rank > 0) {
    linear("query_down", "whole", "=query_rank", d_.qkv_bias, reads);
    norm("query_norm");
  }
  std::string query = d_.query_rank > 0 ? "query_norm" : reads;
  if (layer_.indexed) query = index(query, reads);
  linear("query", "columns", "=heads*head_dim", false, query);
  linear("kv_down", "whole", "=kv_rank+rope_dim", d_.qkv_bias, reads);
  add({{"type", "slice"}, {"name", "latent"}, {"axis", 1}, {"end", "=kv_rank"}});
  norm("kv_norm");
  linear("kv", "columns", "=heads*(head_dim-rope_dim+value_dim)", false);
  JsonWriter out = attention({"query", "kv", "kv_down"});
  out["rope_dim"] = "=rope_dim";
  out["v_head_dim"] = "=value_dim";
  add(std::move(out));
}

/// A layer with a memory between products, as the library has them.
void Block::mix(const std::string& reads) {
  const int64_t inner = d_.mix_heads * d_.mix_dim;
  const auto made = [&](const char* name, int64_t features, const std::string& from) {
    linear(name, "whole", fmt::format("={}", features), d_.mix_bias, from);
  };
  if (d_.mixer == "mamba2") {
    made("mixer_in", 2 * inner + 2 * d_.mix_groups * d_.mix_state + d_.mix_heads, reads);
    JsonWriter out = {{"type", "mamba2"},      {"heads", d_.mix_heads},   {"head_dim", d_.mix_dim},
                      {"state", d_.mix_state}, {"groups", d_.mix_groups}, {"kernel", d_.mix_kernel},
                      {"chunk", d_.mix_chunk}, {"norm", d_.mix_norm},     {"conv_bias", d_.mix_conv_bias}};
    return add_named(std::move(out), "mixer");
  }
  if (d_.mixer == "mamba") {
    made("mixer_in", 2 * inner, reads);
    return add_named({{"type", "mamba"},
                      {"state", d_.mix_state},
                      {"rank", d_.mix_rank},
                      {"kernel", d_.mix_kernel},
                      {"conv_bias", d_.mix_conv_bias},
                      {"norms", d_.mix_norms}},
                     "mixer");
  }
  if (d_.mixer == "short-conv") {
    made("mixer_in", 3 * d_.hidden, reads);
    return add_named({{"type", "short-conv"}, {"kernel", d_.mix_kernel}, {"bias", d_.mix_conv_bias}},
                     "mixer");
  }
  const bool delta = d_.mixer != "lightning", low = d_.mixer == "kda";
  const int64_t values = d_.mix_values * d_.mix_value_dim;
  made("mixer_qkv", 2 * inner + values, reads);
  if (low) made("mixer_gate_down", d_.mix_dim, reads);
  made("mixer_gate", values, low ? "" : reads);
  if (low) made("mixer_decay_down", d_.mix_dim, reads);
  if (delta) made("mixer_decay", low ? inner : d_.mix_values, low ? "" : reads);
  if (delta) made("mixer_write", d_.mix_values, reads);
  JsonWriter out =
      delta ? hf_from_several("linear-attention", {"mixer_qkv", "mixer_gate", "mixer_decay", "mixer_write"})
            : hf_from_several("linear-attention", {"mixer_qkv", "mixer_gate"});
  out["heads"] = d_.mix_heads;
  out["value_heads"] = d_.mix_values;
  out["head_dim"] = d_.mix_dim;
  out["value_dim"] = d_.mix_value_dim;
  out["chunk"] = d_.mix_chunk;
  if (delta) out["kernel"] = d_.mix_kernel;
  out[delta ? "delta" : "norm_width"] = true;
  add_named(std::move(out), "mixer");
}

/// Gated by the sigmoid of a product: one number per feature or per head.
void Block::gate_attention(const std::string& reads) {
  const bool of_heads = d_.attention_gate == 2;
  layers_.back()["name"] = "attention";
  linear("attention_gate", "columns",
         of_heads ? "=" + own("heads") : fmt::format("={}*{}", own("heads"), own("head_dim")), d_.gate_bias,
         reads);
  add_named({{"type", "sigmoid"}}, "attention_weight");
  JsonWriter out = hf_from_several("mul", {"attention", "attention_weight"});
  if (of_heads) out["groups"] = "=" + own("head_dim");
  add(std::move(out));
}

/// Up to "projection".
void Block::attend_or_mix(const std::string& reads) {
  if (layer_.mixed || d_.both) {
    mix(reads);
    linear(d_.both ? "mixer_projection" : "projection", "whole", "=hidden", d_.mix_bias);
    if (!d_.both) return;
  }
  d_.streams > 0 ? attend_compressed(reads) : d_.kv_rank > 0 ? attend_latent(reads) : attend(reads);
  if (d_.attention_gate > 0) gate_attention(reads);
  if (d_.inner_norms) norm("attention_inner_norm");
  linear(d_.both ? "attention_projection" : "projection", "rows", "=hidden", d_.out_bias);
  if (d_.both) add_named(hf_from_several("add", {"attention_projection", "mixer_projection"}), "projection");
}

/// One feed-forward network.
void Block::dense(const std::string& prefix, const std::string& features, bool bias,
                  const std::string& reads) {
  if (d_.gated) {
    add(hf_packed(hf_linear(prefix + "gate", "columns", features, bias, reads), d_.packed_gate));
    activate(prefix + "activation");
    add(hf_packed(hf_linear(prefix + "up", "columns", features, bias, reads), d_.packed_gate));
    add(hf_from_several("mul", {prefix + "activation", prefix + "up"}));
    if (d_.inner_norms) norm(prefix + "inner_norm");
  } else {
    linear(prefix + "up", "columns", features, bias, reads);
    activate(prefix + "activation");
  }
  linear(prefix + "down", "rows", "=hidden", bias);
}

/// The mixture itself.
JsonWriter Block::routed(std::initializer_list<std::string> from) const {
  JsonWriter experts = from.size() > 1 ? hf_from_several("experts", from)
                                       : JsonWriter{{"type", "experts"}, {"from", *from.begin()}};
  experts["split"] = "experts";
  experts["count"] = d_.experts;
  experts["active"] = d_.active;
  experts["feed"] = "=feed";
  if (!d_.gated) experts["gated"] = false;
  if (d_.expert_bias) experts["bias"] = true;
  if (d_.expert_pairs > 0) experts["pairs"] = d_.expert_pairs == 1 ? "none" : "router";
  if (d_.router_scores) experts["score_bias"] = true;
  if (d_.sigmoid_scores) experts["sigmoid"] = true;
  if (!d_.normalized_scores) experts["normalized"] = false;
  if (d_.scale != 1) experts["scale_percent"] = std::max<int64_t>(1, std::llround(100 * d_.scale));
  if (d_.gate_limit > 0) experts["limit"] = d_.gate_limit;
  return experts;
}

/// Gemma 4: a network parallel to the experts, which read and route on its input before the norm.
void Block::experts_beside(const std::string& reads) {
  dense("dense_", "=dense_feed", d_.feed_bias, reads);
  norm("dense_norm");
  norm("router_norm", "residual");
  norm("experts_in", "residual");
  add_named(routed({"experts_in", "router_norm"}), "experts");
  norm("experts_norm");
  add_named(hf_from_several("add", {"dense_norm", "experts_norm"}), "down");
}

void Block::experts(const std::string& reads) {
  if (d_.latent > 0) {
    linear("latent_in", "whole", "=latent", d_.feed_bias, reads);
    add_named(routed({"latent_in", reads}), "latent_experts");
    linear(d_.shared > 0 ? "experts" : "down", "whole", "=hidden", d_.feed_bias);
  } else {
    add_named(routed({reads}), d_.shared > 0 ? "experts" : "down");
  }
  if (d_.shared == 0) return;
  dense("shared_", "=shared", d_.feed_bias, reads);
  std::string shared = "shared_down";
  if (d_.shared_gate) {
    linear("shared_router", "whole", "=1", false, reads);
    add({{"type", "sigmoid"}, {"name", "shared_weight"}});
    JsonWriter weighted = hf_from_several("mul", {shared, "shared_weight"});
    weighted["name"] = shared = "shared_weighted";
    add(std::move(weighted));
  }
  add_named(hf_from_several("add", {"experts", shared}), d_.expert_norm ? "experts_sum" : "down");
  if (d_.expert_norm) norm("down");
}

void Block::feed_forward(const std::string& reads) {
  if (d_.beside) return experts_beside(reads);
  if (d_.experts > 0 && !layer_.dense) return experts(reads);
  const std::string feed = layer_.dense ? "dense_feed" : "feed";
  dense("", (layer_.shares && d_.wide_shared ? "=2*" : "=") + feed, d_.feed_bias, reads);
}

/// What a layer reads from the parallel streams.
std::string Block::streams_in(const std::string& from, const char* name) {
  if (d_.streams == 0) return from;
  add_named({{"type", "stream-read"}, {"from", from}, {"streams", d_.streams}}, name);
  return name;
}

void Block::sum(std::initializer_list<std::string> of, const char* name) {
  JsonWriter out = hf_from_several(d_.streams > 0 ? "stream-write" : "add", of);
  if (d_.streams > 0) out["streams"] = d_.streams;
  if (name != nullptr) out["name"] = name;
  add(std::move(out));
}

/// The layer's output gates the entry of its per-layer embedding table (Gemma 3n, Gemma 4).
void Block::add_per_layer() {
  linear("per_layer_gate", "whole", "=per_layer", false, "made");
  activate("per_layer_activation");
  add({{"type", "slice"},
       {"name", "per_layer_words"},
       {"from", "in2"},
       {"axis", 1},
       {"begin", "=(first+index)*per_layer"},
       {"end", "=(first+index+1)*per_layer"}});
  add(hf_from_several("mul", {"per_layer_activation", "per_layer_words"}));
  linear("per_layer_projection", "whole", "=hidden", false);
  norm("per_layer_norm");
  add(hf_from_several("add", {"per_layer_norm", "made"}));
}

JsonWriter Block::write() {
  const bool turned = layer_.mixed && d_.mixed_pre_norms, pre = d_.pre_norms || turned,
             post = d_.post_norms && !turned;
  const bool attends = layer_.attends, feeds = layer_.feeds, parallel = d_.parallel > 0;
  const std::string whole = attends ? streams_in("in", "attention_in") : "in";
  if (pre) norm("norm1", whole == "in" ? "" : whole);
  const std::string first = pre ? "norm1" : whole;
  std::string attended = "projection", residual = attends ? "residual" : "in";
  if (attends) {
    attend_or_mix(first);
    if (post) norm(attended = "attention_norm");
    if (!parallel) sum({attended, "in"}, d_.after_norms ? "sum" : "residual");
    if (d_.after_norms) norm("residual");
  }
  if (feeds) {
    const bool own_norm = attends && pre && d_.parallel != 1;
    const std::string fed_by = attends ? streams_in("residual", "feed_in") : "in";
    if (own_norm) norm("norm2", parallel ? "in" : fed_by);
    feed_forward(own_norm ? "norm2" : parallel || !attends ? first : fed_by);
    std::string fed = "down";
    if (post) norm(fed = "feed_norm");
    const char* name = d_.per_layer > 0 ? "made" : nullptr;
    if (parallel)
      add(hf_from_several("add", {fed, attended, "in"}));
    else
      sum({fed, residual}, name);
    if (d_.after_norms) norm("norm");
  }
  if (d_.per_layer > 0) add_per_layer();
  JsonWriter out = JsonWriter::object();
  if (d_.per_layer > 0) {
    out["parameters"] = JsonWriter::object();
    out["parameters"]["first"] = 0;
  }
  out["layers"] = std::move(layers_);
  return out;
}

}  // namespace

JsonWriter hf_norm(const Decoder& d, const std::string& name) {
  JsonWriter out = {{"type", d.norm.starts_with("rms") ? "rms-norm" : "layer-norm"}, {"name", name}};
  if (d.norm == "layer-no-bias") out["bias"] = false;
  if (d.norm.ends_with("-plain")) out["affine"] = false;
  if (d.fp32_norm) out[d.norm.starts_with("rms") ? "fp32_scale" : "composed"] = true;
  return out;
}

JsonWriter hf_block(const Decoder& decoder, const Decoder::Layer& layer) {
  return Block(decoder, layer).write();
}

}  // namespace tandem::models
