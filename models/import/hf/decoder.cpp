// SPDX-License-Identifier: Apache-2.0
// Decoder-only transformers as a model file.
#include <fmt/format.h>

#include <algorithm>

#include "models/import/hf/layers.h"

namespace tandem::models {

namespace {

/// Name of a block of this kind; it leaves out what all layers share.
std::string kind_of(const Decoder& d, const Decoder::Layer& layer) {
  const bool all_indexed =
      std::all_of(d.each.begin(), d.each.end(), [](const Decoder::Layer& each) { return each.indexed; });
  std::string out = layer.dense ? "dense" : "";
  const auto add = [&](bool is, const char* word) {
    if (is) out += (out.empty() ? "" : "_") + std::string(word);
  };
  add(layer.windowed, "windowed");
  add(layer.indexed && !all_indexed, "indexed");
  add(layer.compressed, "compressed");
  add(layer.shares, "sharing");
  add(layer.mixed, "mixed");
  add(!layer.attends, "feed");
  add(!layer.feeds, "alone");
  return out.empty() ? "decoder" : out;
}

/// Consecutive layers of one kind.
using Runs = std::vector<std::pair<Decoder::Layer, int64_t>>;
Runs runs_of(const Decoder& d) {
  Runs out;
  for (const Decoder::Layer& layer : d.each) {
    if (out.empty() || !(out.back().first == layer)) out.emplace_back(layer, 0);
    ++out.back().second;
  }
  return out;
}

/// Whether the parameter "layers" may change their number: all equal, or dense ones first.
bool may_be_more(const Decoder& d, const Runs& runs) {
  if (d.per_layer > 0 || runs.size() > 2) return false;
  return runs.size() == 1 || (kind_of(d, runs[0].first) == "dense" && kind_of(d, runs[1].first) == "decoder");
}

/// The blocks in order.
void add_blocks(const Decoder& d, const Runs& runs, JsonWriter& layers, JsonWriter& blocks) {
  std::string before = "words";
  int64_t at = 0;
  const auto use = [&](const std::string& block, const std::string& name, JsonWriter repeat) {
    layers.push_back({{"block", block}, {"name", name}, {"repeat", std::move(repeat)}});
    if (d.per_layer == 0) return;
    layers.back()["from"] = hf_from_several("", {before, "per_layer"})["from"];
    layers.back()["first"] = at;
    before = name;
  };
  std::vector<std::string> written;
  for (const auto& [layer, count] : runs) {
    const std::string kind = kind_of(d, layer);
    if (std::find(written.begin(), written.end(), kind) != written.end()) continue;
    blocks[kind] = hf_block(d, layer);
    written.push_back(kind);
  }
  if (may_be_more(d, runs)) {
    if (runs.size() == 2) use(written[0], "dense", "=dense_layers");
    return use(written.back(), "decoder", runs.size() == 2 ? "=layers-dense_layers" : "=layers");
  }
  for (const auto& [layer, count] : runs) {
    use(kind_of(d, layer), runs.size() == 1 ? "decoder" : fmt::format("decoder{}", at), count);
    at += count;
  }
}

/// The per-layer embedding tables, and the embedding itself, that gate the layers (Gemma 4).
void add_per_layer_words(const Decoder& d, JsonWriter& layers) {
  layers.back()["name"] = "words";
  JsonWriter words = {{"type", "embedding"}, {"split", "vocabulary"}, {"from", "tokens"}};
  words["name"] = "per_layer_words";
  words["vocabulary"] = d.per_layer_words;
  const std::string all = fmt::format("={}*per_layer", d.layers);
  words["width"] = all;
  layers.push_back(std::move(words));
  layers.push_back(hf_linear("per_layer_model", "whole", all, false, "words"));
  JsonWriter norm = hf_norm(d, "per_layer_norm");
  norm["width"] = "=per_layer";
  layers.push_back(std::move(norm));
  layers.push_back(hf_from_several("add", {"per_layer_norm", "per_layer_words"}));
  layers.back()["name"] = "per_layer";
}

}  // namespace

HfLayers hf_layers(const Decoder& d) {
  constexpr int64_t kLongest = 8192;
  HfLayers out{JsonWriter::object(), "=sequence", JsonWriter::object(), JsonWriter::array()};
  const Runs runs = runs_of(d);
  const bool more_layers = may_be_more(d, runs);
  if (more_layers) out.parameters["layers"] = d.layers;
  if (more_layers && runs.size() == 2) out.parameters["dense_layers"] = runs[0].second;
  const std::pair<const char*, int64_t> sizes[] = {{"hidden", d.hidden},
                                                   {"heads", d.heads},
                                                   {"kv_heads", d.kv_heads},
                                                   {"head_dim", d.head_dim},
                                                   {"feed", d.feed},
                                                   {"vocabulary", d.vocabulary},
                                                   {"sequence", std::min(d.sequence, kLongest)},
                                                   {"fused", d.fused ? 1 : 0}};
  for (const auto& [name, value] : sizes) out.parameters[name] = value;
  const bool any_dense = std::any_of(d.each.begin(), d.each.end(), [](const auto& l) { return l.dense; });
  const std::pair<const char*, int64_t> more[] = {{"dense_feed", any_dense || d.beside ? d.dense_feed : 0},
                                                  {"shared", d.shared},
                                                  {"query_rank", d.query_rank},
                                                  {"kv_rank", d.kv_rank},
                                                  {"rope_dim", d.rope_dim},
                                                  {"value_dim", d.value_dim},
                                                  {"window_heads", d.window_heads},
                                                  {"window_kv_heads", d.window_kv_heads},
                                                  {"window_head_dim", d.window_head_dim},
                                                  {"latent", d.latent},
                                                  {"per_layer", d.per_layer}};
  for (const auto& [name, value] : more) {
    if (value > 0) out.parameters[name] = value;
  }
  out.layers.push_back(
      {{"type", "embedding"}, {"split", "vocabulary"}, {"vocabulary", "=vocabulary"}, {"width", "=hidden"}});
  if (d.positions > 0) out.layers.push_back({{"type", "position-embedding"}, {"length", d.positions}});
  if (d.embedding_norm) out.layers.push_back(hf_norm(d, "embedding_norm"));
  if (d.per_layer > 0) add_per_layer_words(d, out.layers);
  if (d.streams > 0) {
    JsonWriter from = JsonWriter::array();
    for (int64_t i = 0; i < d.streams; ++i) from.push_back("embedding1");
    out.layers.push_back({{"type", "concat"}, {"name", "streams"}, {"axis", 1}});
    out.layers.back()["from"] = std::move(from);
  }
  add_blocks(d, runs, out.layers, out.blocks);
  if (d.streams > 0)
    out.layers.push_back(
        {{"type", "stream-read"}, {"name", "streams_out"}, {"streams", d.streams}, {"mixes", false}});
  if (d.final_norm) out.layers.push_back(hf_norm(d, "norm"));
  if (!d.head) return out;
  if (d.tied) {
    out.layers.push_back({{"type", "tied-linear"}, {"split", "vocabulary"}, {"vocabulary", "=vocabulary"}});
    if (d.head_bias) out.layers.back()["bias"] = true;
  } else {
    out.layers.push_back(hf_linear("head", "vocabulary", "=vocabulary", d.head_bias));
  }
  out.layers.push_back({{"type", "cross-entropy"}});
  return out;
}

}  // namespace tandem::models
