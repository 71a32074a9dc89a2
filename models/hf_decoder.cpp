// SPDX-License-Identifier: Apache-2.0
// Decoder-only transformers as layers of a model file.
#include <algorithm>

#include "models/hf_layers.h"

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

/// Layers of one block, in order.
class Block {
 public:
  Block(const Decoder& decoder, bool dense, bool windowed)
      : d_(decoder), dense_(dense), windowed_(windowed) {}
  JsonWriter write();

 private:
  using Parallel = Decoder::Parallel;
  void add(JsonWriter layer) { layers_.push_back(std::move(layer)); }
  void norm(const std::string& name, const std::string& from = "");
  void linear(const std::string& name, const std::string& split, const std::string& features, bool bias,
              const std::string& from = "") {
    add(hf_linear(name, split, features, bias, from));
  }
  void attend();
  void attend_latent();
  void feed_forward(const std::string& reads);
  void gated(const std::string& prefix, const std::string& features, bool bias, const std::string& reads);

  const Decoder& d_;
  const bool dense_, windowed_;
  JsonWriter layers_ = JsonWriter::array();
};

void Block::norm(const std::string& name, const std::string& from) {
  JsonWriter out = {{"type", d_.rms ? "rms-norm" : "layer-norm"}, {"name", name}};
  if (!from.empty()) out["from"] = from;
  if (!d_.rms && !d_.norm_bias) out["bias"] = false;
  add(std::move(out));
}

void Block::attend() {
  linear("qkv", "columns", "=(heads+2*kv_heads)*head_dim", d_.qkv_bias);
  JsonWriter attention = {{"type", "attention"},     {"split", "heads"},        {"heads", "=heads"},
                          {"kv_heads", "=kv_heads"}, {"head_dim", "=head_dim"}, {"fused", "=fused"},
                          {"causal", true}};
  if (d_.rotary) attention["rotary"] = true;
  if (d_.qk_norm) attention["qk_norm"] = true;
  if (d_.sinks) attention["sinks"] = true;
  if (windowed_) attention["window"] = d_.window;
  add(std::move(attention));
}

/// DeepSeek-AI 2024, DeepSeek-V2, figure 3 and section 2.1.
void Block::attend_latent() {
  if (d_.query_rank > 0) {
    linear("query_down", "whole", "=query_rank", d_.qkv_bias, "norm1");
    norm("query_norm");
  }
  linear("query", "columns", "=heads*head_dim", false, d_.query_rank > 0 ? "query_norm" : "norm1");
  linear("kv_down", "whole", "=kv_rank+rope_dim", d_.qkv_bias, "norm1");
  add({{"type", "slice"}, {"name", "latent"}, {"axis", 1}, {"end", "=kv_rank"}});
  norm("kv_norm");
  linear("kv", "columns", "=heads*(head_dim-rope_dim+value_dim)", false);
  JsonWriter attention = hf_from_several("attention", {"query", "kv", "kv_down"});
  attention["split"] = "heads";
  for (const char* key : {"heads", "head_dim", "rope_dim", "fused"}) attention[key] = std::string("=") + key;
  attention["v_head_dim"] = "=value_dim";
  attention["causal"] = attention["rotary"] = true;
  add(std::move(attention));
}

void Block::gated(const std::string& prefix, const std::string& features, bool bias,
                  const std::string& reads) {
  linear(prefix + "gate", "columns", features, bias, reads);
  add({{"type", d_.activation}, {"name", prefix + "activation"}});
  linear(prefix + "up", "columns", features, bias, reads);
  JsonWriter product = hf_from_several("mul", {prefix + "activation", prefix + "up"});
  add(std::move(product));
  linear(prefix + "down", "rows", "=hidden", bias);
}

void Block::feed_forward(const std::string& reads) {
  if (d_.experts > 0 && !dense_) {
    JsonWriter experts = {{"type", "experts"},   {"name", d_.shared > 0 ? "experts" : "down"},
                          {"split", "experts"},  {"count", d_.experts},
                          {"active", d_.active}, {"feed", "=feed"}};
    if (d_.expert_bias) experts["bias"] = true;
    if (d_.sigmoid_scores) experts["sigmoid"] = true;
    if (!d_.normalized_scores) experts["normalized"] = false;
    if (d_.scale_percent != 100) experts["scale_percent"] = d_.scale_percent;
    if (d_.gate_limit > 0) experts["limit"] = d_.gate_limit;
    add(std::move(experts));
    if (d_.shared == 0) return;
    gated("shared_", "=shared", false, reads);
    JsonWriter sum = hf_from_several("add", {"experts", "shared_down"});
    sum["name"] = "down";
    return add(std::move(sum));
  }
  const std::string features = dense_ ? "=dense_feed" : "=feed";
  if (d_.gated) {
    linear("gate", "columns", features, d_.feed_bias, reads);
    add({{"type", d_.activation}});
    linear("up", "columns", features, d_.feed_bias, reads);
    add(hf_from_several("mul", {d_.activation + "1", "up"}));
  } else {
    linear("up", "columns", features, d_.feed_bias, reads);
    add({{"type", d_.activation}});
  }
  linear("down", "rows", "=hidden", d_.feed_bias);
}

JsonWriter Block::write() {
  norm("norm1");
  d_.kv_rank > 0 ? attend_latent() : attend();
  linear("projection", "rows", "=hidden", d_.out_bias);
  if (d_.post_norms) norm("attention_norm");
  const bool parallel = d_.parallel != Parallel::no;
  if (!parallel) {
    JsonWriter residual = hf_from_several("add", {d_.post_norms ? "attention_norm" : "projection", "in"});
    residual["name"] = "residual";
    add(std::move(residual));
  }
  const bool own_norm = d_.parallel != Parallel::one_norm;
  if (own_norm) norm("norm2", parallel ? "in" : "");
  feed_forward(own_norm ? "norm2" : "norm1");
  if (d_.post_norms) norm("feed_norm");
  add(parallel ? hf_from_several("add", {"down", "projection", "in"})
               : hf_from_several("add", {d_.post_norms ? "feed_norm" : "down", "residual"}));
  JsonWriter out = JsonWriter::object();
  out["layers"] = std::move(layers_);
  return out;
}

/// The blocks in order: all alike, dense ones first, or every other one with a window.
void add_blocks(const Decoder& d, JsonWriter& layers, JsonWriter& blocks) {
  const auto use = [&](const char* block, const std::string& name, JsonWriter repeat) {
    layers.push_back({{"block", block}, {"name", name}, {"repeat", std::move(repeat)}});
  };
  blocks["decoder"] = Block(d, false, false).write();
  if (d.window > 0) {
    blocks["windowed"] = Block(d, false, true).write();
    for (int64_t i = 0; i < d.layers; ++i)
      use(i % 2 == 0 ? "windowed" : "decoder", fmt::format("decoder{}", i), 1);
  } else if (d.dense_layers > 0) {
    blocks["dense"] = Block(d, true, false).write();
    use("dense", "dense", "=dense_layers");
    use("decoder", "decoder", "=layers-dense_layers");
  } else {
    use("decoder", "decoder", "=layers");
  }
}

JsonWriter norm_layer(const Decoder& d, const std::string& name) {
  JsonWriter out = {{"type", d.rms ? "rms-norm" : "layer-norm"}, {"name", name}};
  if (!d.rms && !d.norm_bias) out["bias"] = false;
  return out;
}

}  // namespace

HfLayers hf_layers(const Decoder& d) {
  constexpr int64_t kLongest = 8192;
  HfLayers out{JsonWriter::object(), "=sequence", JsonWriter::object(), JsonWriter::array()};
  out.parameters = {{"layers", d.layers},
                    {"hidden", d.hidden},
                    {"heads", d.heads},
                    {"kv_heads", d.kv_heads},
                    {"head_dim", d.head_dim},
                    {"feed", d.feed},
                    {"vocabulary", d.vocabulary},
                    {"sequence", std::min(d.sequence, kLongest)},
                    {"fused", 1}};
  const std::pair<const char*, int64_t> more[] = {{"dense_layers", d.dense_layers},
                                                  {"dense_feed", d.dense_layers > 0 ? d.dense_feed : 0},
                                                  {"shared", d.shared},
                                                  {"query_rank", d.query_rank},
                                                  {"kv_rank", d.kv_rank},
                                                  {"rope_dim", d.rope_dim},
                                                  {"value_dim", d.value_dim}};
  for (const auto& [name, value] : more) {
    if (value > 0) out.parameters[name] = value;
  }
  out.layers.push_back(
      {{"type", "embedding"}, {"split", "vocabulary"}, {"vocabulary", "=vocabulary"}, {"width", "=hidden"}});
  if (d.positions > 0) out.layers.push_back({{"type", "position-embedding"}, {"length", d.positions}});
  if (d.embedding_norm) out.layers.push_back(norm_layer(d, "embedding_norm"));
  add_blocks(d, out.layers, out.blocks);
  out.layers.push_back(norm_layer(d, "norm"));
  if (d.tied) {
    out.layers.push_back({{"type", "tied-linear"}, {"split", "vocabulary"}, {"vocabulary", "=vocabulary"}});
  } else {
    out.layers.push_back(hf_linear("head", "vocabulary", "=vocabulary", d.head_bias));
  }
  out.layers.push_back({{"type", "cross-entropy"}});
  return out;
}

}  // namespace tandem::models
