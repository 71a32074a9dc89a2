// SPDX-License-Identifier: Apache-2.0
// A row of models/import/hf/types and the fields of a config -> a Decoder.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "models/import/hf/layers.h"

namespace tandem::models {

namespace {

struct Size {
  const char* key;
  int64_t Decoder::*member;
  int64_t low;
};
constexpr int64_t kMost = 1'000'000'000, kMostLayers = 100'000;
constexpr Size kSizes[] = {{"layers", &Decoder::layers, 1},
                           {"hidden", &Decoder::hidden, 1},
                           {"heads", &Decoder::heads, 1},
                           {"kv_heads", &Decoder::kv_heads, 1},
                           {"head_dim", &Decoder::head_dim, 1},
                           {"feed", &Decoder::feed, 1},
                           {"vocabulary", &Decoder::vocabulary, 1},
                           {"sequence", &Decoder::sequence, 1},
                           {"positions", &Decoder::positions, 0},
                           {"parallel", &Decoder::parallel, 0},
                           {"experts", &Decoder::experts, 0},
                           {"expert_pairs", &Decoder::expert_pairs, 0},
                           {"active", &Decoder::active, 0},
                           {"shared", &Decoder::shared, 0},
                           {"dense_feed", &Decoder::dense_feed, 0},
                           {"query_rank", &Decoder::query_rank, 0},
                           {"kv_rank", &Decoder::kv_rank, 0},
                           {"rope_dim", &Decoder::rope_dim, 0},
                           {"value_dim", &Decoder::value_dim, 0},
                           {"qk_norm", &Decoder::qk_norm, 0},
                           {"window", &Decoder::window, 0},
                           {"mix_heads", &Decoder::mix_heads, 0},
                           {"mix_dim", &Decoder::mix_dim, 0},
                           {"mix_values", &Decoder::mix_values, 0},
                           {"mix_value_dim", &Decoder::mix_value_dim, 0},
                           {"mix_state", &Decoder::mix_state, 0},
                           {"mix_groups", &Decoder::mix_groups, 1},
                           {"mix_kernel", &Decoder::mix_kernel, 1},
                           {"mix_chunk", &Decoder::mix_chunk, 1},
                           {"mix_rank", &Decoder::mix_rank, 0},
                           {"index_heads", &Decoder::index_heads, 0},
                           {"index_dim", &Decoder::index_dim, 0},
                           {"index_block", &Decoder::index_block, 0},
                           {"sinks", &Decoder::sinks, 0},
                           {"attention_gate", &Decoder::attention_gate, 0},
                           {"window_heads", &Decoder::window_heads, 0},
                           {"window_kv_heads", &Decoder::window_kv_heads, 0},
                           {"window_head_dim", &Decoder::window_head_dim, 0},
                           {"latent", &Decoder::latent, 0},
                           {"per_layer", &Decoder::per_layer, 0},
                           {"per_layer_words", &Decoder::per_layer_words, 0},
                           {"streams", &Decoder::streams, 0},
                           {"out_groups", &Decoder::out_groups, 0},
                           {"out_rank", &Decoder::out_rank, 0},
                           {"top", &Decoder::top, 0},
                           {"sparse_ratio", &Decoder::sparse_ratio, 0},
                           {"heavy_ratio", &Decoder::heavy_ratio, 0}};

struct Flag {
  const char* key;
  bool Decoder::*member;
};
constexpr Flag kFlags[] = {{"rotary", &Decoder::rotary},
                           {"causal", &Decoder::causal},
                           {"qkv_bias", &Decoder::qkv_bias},
                           {"out_bias", &Decoder::out_bias},
                           {"feed_bias", &Decoder::feed_bias},
                           {"head_bias", &Decoder::head_bias},
                           {"gated", &Decoder::gated},
                           {"packed_qkv", &Decoder::packed_qkv},
                           {"packed_gate", &Decoder::packed_gate},
                           {"tied", &Decoder::tied},
                           {"embedding_norm", &Decoder::embedding_norm},
                           {"final_norm", &Decoder::final_norm},
                           {"fp32_norm", &Decoder::fp32_norm},
                           {"pre_norms", &Decoder::pre_norms},
                           {"post_norms", &Decoder::post_norms},
                           {"expert_bias", &Decoder::expert_bias},
                           {"router_scores", &Decoder::router_scores},
                           {"sigmoid_scores", &Decoder::sigmoid_scores},
                           {"normalized_scores", &Decoder::normalized_scores},
                           {"shared_gate", &Decoder::shared_gate},
                           {"value_norm", &Decoder::value_norm},
                           {"keys_as_values", &Decoder::keys_as_values},
                           {"beside", &Decoder::beside},
                           {"wide_shared", &Decoder::wide_shared},
                           {"after_norms", &Decoder::after_norms},
                           {"inner_norms", &Decoder::inner_norms},
                           {"qk_scales", &Decoder::qk_scales},
                           {"qk_norm_bias", &Decoder::qk_norm_bias},
                           {"both", &Decoder::both},
                           {"gate_bias", &Decoder::gate_bias},
                           {"expert_norm", &Decoder::expert_norm},
                           {"mixed_pre_norms", &Decoder::mixed_pre_norms},
                           {"mix_conv_bias", &Decoder::mix_conv_bias},
                           {"mix_norm", &Decoder::mix_norm},
                           {"mix_norms", &Decoder::mix_norms},
                           {"mix_bias", &Decoder::mix_bias}};

/// Attention as the config asks for it, or as the library runs it for the type.
bool fused(const HfFields& fields, const HfType& type) {
  for (const char* key : {"_attn_implementation", "attn_implementation"}) {
    const Json* said = fields.find(key);
    if (said != nullptr) return said->as_text() != "eager";
  }
  return type.library->text("attention", "sdpa") != "eager";
}

/// Names of a list's layers: the library's, and those of older files.
const std::map<std::string, Decoder::Layer, std::less<>>& kinds() {
  using L = Decoder::Layer;
  static const std::map<std::string, L, std::less<>> all{
      {"full_attention", L{}},
      {"attention", L{}},
      {"global", L{}},
      {"sliding_attention", L{.windowed = true}},
      {"chunked_attention", L{.windowed = true}},
      {"local", L{.windowed = true}},
      {"linear_attention", L{.mixed = true}},
      {"mamba", L{.mixed = true}},
      {"conv", L{.mixed = true}},
      {"hybrid", L{}},
      {"indexed_attention", L{.indexed = true}},
      {"minimax_m3_sparse", L{.indexed = true}},
      {"compressed_sparse_attention", L{.indexed = true}},
      {"heavily_compressed_attention", L{.compressed = true}},
      {"moe", L{.attends = false}},
      {"mlp", L{.dense = true, .attends = false}},
  };
  return all;
}

/// Layers by the row's expressions of `i`; a list in the config has precedence.
class Each {
 public:
  Each(const HfFields& fields, const HfType& type, Decoder& decoder) : f_(fields), type_(type), d_(decoder) {}

  void read() {
    auto& all = d_.each;
    all.resize(static_cast<std::size_t>(d_.layers));
    for (const char* key : {"mixed", "windowed", "dense", "indexed", "compressed", "shares"})
      value(key, 0);  // defines their fields
    read_kinds();
    if (flag("last_whole")) all.back().windowed = false;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].attends) all[i].dense = value("dense", i);
      all[i].shares = value("shares", i);
      if (!d_.mixer.empty() || !all[i].mixed) continue;
      f_.config().fail(fmt::format("layers without attention are not understood of \"{}\"", type_.name));
    }
    read_feeds();
    mark("attends_at", [](Decoder::Layer& layer) { layer.mixed = false; });
    if (flag("alone"))
      for (Decoder::Layer& layer : all) layer.feeds = false;
    agree("agree_windowed", [](const Decoder::Layer& layer) { return layer.windowed; });
    agree("agree_sparse", [](const Decoder::Layer& layer) { return !layer.dense; });
    check_per_layer();
    const bool other = d_.window_heads + d_.window_kv_heads + d_.window_head_dim > 0 || d_.sinks == 2;
    for (Decoder::Layer& layer : all) {
      layer.windowed = layer.windowed && (d_.window > 0 || other) && !layer.mixed;
      layer.dense = layer.dense && d_.experts > 0 && !d_.beside;
      layer.indexed = layer.indexed && d_.index_heads > 0 && layer.attends && !layer.mixed;
    }
  }

 private:
  /// What replaces attention, and what attention sees.
  void read_kinds() {
    auto& all = d_.each;
    const Json* letters = hf_spec(type_, "layer_pattern");
    if (const Json* names = list("layer_types", true)) {
      const bool singly = flag("single");
      for (std::size_t i = 0; i < all.size(); ++i) all[i] = kind_of(names->items()[i], singly);
    } else if (letters != nullptr) {
      const std::string pattern = f_.text(*letters);
      for (std::size_t i = 0; i < std::min(all.size(), pattern.size()); ++i) all[i] = lettered(pattern[i]);
    } else {
      for (std::size_t i = 0; i < all.size(); ++i) {
        all[i].mixed = value("mixed", i);
        all[i].windowed = value("windowed", i);
        all[i].indexed = value("indexed", i);
        all[i].compressed = value("compressed", i);
      }
      numbers("indexed_flags", {0, 1}, [](Decoder::Layer& layer, int64_t n) { layer.indexed = n == 1; });
      numbers("ratios", {0, 4, 128}, [](Decoder::Layer& layer, int64_t n) {
        layer.indexed = n == 4;
        layer.compressed = n == 128;
      });
    }
    const Json* indexers = list("indexers", true);
    for (std::size_t i = 0; indexers != nullptr && i < all.size(); ++i)
      all[i].indexed = one_of(indexers->items()[i], {"full", "shared"}) == "full";
  }
  /// The layers with experts.
  void read_feeds() {
    auto& all = d_.each;
    if (const Json* names = list("mlp_layer_types", true)) {
      for (std::size_t i = 0; i < all.size(); ++i)
        all[i].dense = one_of(names->items()[i], {"dense", "sparse", "moe", "hash_moe"}) == "dense";
    } else {
      numbers("sparse_flags", {0, 1}, [](Decoder::Layer& layer, int64_t n) { layer.dense = n == 0; });
    }
    mark("mlp_only_layers", [](Decoder::Layer& layer) { layer.dense = true; });
    if (list("experts_at", false) != nullptr)
      for (Decoder::Layer& layer : all) layer.dense = true;
    mark("experts_at", [](Decoder::Layer& layer) { layer.dense = false; });
  }
  /// A list with a number per layer; further ones belong to layers that predict more words.
  template <typename Change>
  void numbers(const char* key, std::initializer_list<int64_t> known, Change change) {
    const Json* said = list(key, false);
    if (said == nullptr) return;
    if (said->items().size() < d_.each.size())
      said->fail(fmt::format("{} numbers for {} layers", said->items().size(), d_.layers));
    for (std::size_t i = 0; i < d_.each.size(); ++i) {
      const int64_t n = said->items()[i].as_int();
      if (std::find(known.begin(), known.end(), n) == known.end())
        said->items()[i].fail(fmt::format("{} is unknown; known: {}", n, fmt::join(known, ", ")));
      change(d_.each[i], n);
    }
  }
  /// If the class does not read a list of 1 and 0, but has such layers.
  template <typename Is>
  void agree(const char* key, Is is) {
    const Json* said = list(key, false);
    numbers(key, {0, 1}, [&](Decoder::Layer& layer, int64_t n) {
      if (is(layer) != (n == 1))
        said->fail(
            fmt::format("\"{}\" has other layers so, and its class does not read this list", type_.name));
    });
  }
  /// "per_layer_config" gives the differences of all layers without a window, or of all with one (HfFields).
  void check_per_layer() const {
    const Json *of = hf_spec(type_, "per_layer_config"), *given = f_.config().find("per_layer_config");
    if (of == nullptr || given == nullptr || !given->is_object()) return;
    f_.find("per_layer_config");
    const bool windowed = of->as_text() == "windowed";
    const auto is = [&](const Decoder::Layer& layer) { return layer.windowed == windowed; };
    bool fits = std::count_if(d_.each.begin(), d_.each.end(), is) ==
                static_cast<std::ptrdiff_t>(given->members().size());
    for (const auto& [key, value] : given->members()) {
      std::size_t at = d_.each.size();
      std::from_chars(key.data(), key.data() + key.size(), at);
      fits = fits && at < d_.each.size() && is(d_.each[at]);
    }
    if (!fits)
      given->fail(
          fmt::format("of \"{}\" it is understood where it names all layers {} a window, and no other",
                      type_.name, windowed ? "with" : "without"));
  }
  static std::string one_of(const Json& name, std::initializer_list<std::string_view> known) {
    if (std::find(known.begin(), known.end(), name.as_text()) == known.end())
      name.fail(
          fmt::format("\"{}\" is unknown; known: {}", printable(name.as_text()), fmt::join(known, ", ")));
    return name.as_text();
  }
  bool flag(const char* key) const {
    const Json* spec = hf_spec(type_, key);
    return spec != nullptr && f_.whole(*spec).value_or(0) != 0;
  }
  bool value(const char* key, std::size_t layer) const {
    const Json* spec = hf_spec(type_, key);
    if (spec == nullptr) return false;
    Variables variables(&f_.variables());
    variables.set("i", static_cast<int64_t>(layer));
    return f_.whole(*spec, variables).value_or(0) != 0;
  }
  /// The list in the field that the row names; null: the type has none, or it is missing.
  const Json* list(const char* key, bool of_layers) const {
    const Json* said = hf_spec(type_, key);
    const bool has = said != nullptr &&
                     (!of_layers || type_.library->at("fields").find(said->as_text().substr(1)) != nullptr);
    const Json* out = has ? f_.find(said->as_text().substr(1)) : nullptr;
    if (out != nullptr && of_layers && static_cast<int64_t>(out->items().size()) != d_.layers)
      out->fail(fmt::format("{} names of layers for {} layers", out->items().size(), d_.layers));
    return out;
  }
  template <typename Change>
  void mark(const char* key, Change change) {
    const Json* indices = std::string_view(key) == "mlp_only_layers" ? f_.find(key) : list(key, false);
    for (std::size_t i = 0; indices != nullptr && i < indices->items().size(); ++i)
      change(d_.each[static_cast<std::size_t>(indices->items()[i].as_int(0, d_.layers - 1))]);
  }
  static Decoder::Layer kind_of(const Json& name, bool singly) {
    const auto at = kinds().find(name.as_text());
    if (at == kinds().end() || (!at->second.attends && !singly))
      name.fail(fmt::format("layers of the kind \"{}\" are not understood", printable(name.as_text())));
    Decoder::Layer out = at->second;
    if (singly && out.attends) out.feeds = false;
    return out;
  }
  /// Of Nemotron-H's pattern of letters.
  Decoder::Layer lettered(char letter) const {
    if (letter == 'M') return {.mixed = true, .feeds = false};
    if (letter == '*') return {.feeds = false};
    if (letter == '-') return {.dense = true, .attends = false};
    if (letter != 'E') f_.config().fail(fmt::format("a layer \"{}\" is unknown; known: M, *, -, E", letter));
    return {.attends = false};
  }
  const HfFields& f_;
  const HfType& type_;
  Decoder& d_;
};

}  // namespace

const Json* hf_spec(const HfType& type, std::string_view key) {
  const Json* row = type.row;
  for (int depth = 0; row != nullptr && depth < 8; ++depth) {
    const Json* model = row->find("model");
    const Json* spec = model != nullptr ? model->find(key) : nullptr;
    if (spec != nullptr) return spec->kind() != Json::Kind::null ? spec : nullptr;
    if (row == hf_row("")) return nullptr;
    row = hf_row(row->text("like", ""));
  }
  return nullptr;
}

HfActivation hf_activation(const std::string& name, const Json& where) {
  if (name == "gelu" || name == "gelu_pytorch_tanh") return {"gelu"};
  // Tensors that autograd saves of each, counted with hooks (transformers 5.23, activations.py).
  constexpr std::pair<std::string_view, int64_t> kComposed[] = {{"gelu_new", 4},         {"gelu_accurate", 4},
                                                                {"gelu_python_tanh", 4}, {"gelu_fast", 7},
                                                                {"gelu_python", 3},      {"quick_gelu", 2}};
  for (const auto& [known, kept] : kComposed) {
    if (name == known) return {"gelu", true, kept};
  }
  if (name == "silu" || name == "swish") return {"swish"};
  for (const char* same : {"relu", "relu2", "relu6", "sigmoid", "tanh"}) {
    if (name == same) return {same};
  }
  if (name == "xielu") return {"xielu"};
  if (name == "hardswish") return {"hard-swish"};
  where.fail(
      fmt::format("activation \"{}\" is not understood; known: gelu, gelu_new, gelu_fast, gelu_pytorch_tanh, "
                  "quick_gelu, silu, relu, relu2, relu6, xielu, sigmoid, tanh, hardswish",
                  printable(name)));
}

JsonWriter hf_activation_layer(const HfActivation& activation, const std::string& name) {
  JsonWriter layer = {{"type", activation.type}, {"name", name}};
  if (activation.composed) layer["composed"] = true;
  if (activation.composed && activation.kept != 4) layer["kept"] = activation.kept;
  return layer;
}

Decoder hf_decoder(const HfFields& f, const HfType& type) {
  Decoder d;
  d.config = &f.config();
  for (const Size& size : kSizes) {
    if (const Json* spec = hf_spec(type, size.key))
      d.*size.member = f.whole(*spec, size.low, size.member == &Decoder::layers ? kMostLayers : kMost);
  }
  for (const Flag& flag : kFlags) {
    if (const Json* spec = hf_spec(type, flag.key)) d.*flag.member = f.whole(*spec, 0, kMost) != 0;
  }
  d.fused = fused(f, type);
  d.head = !type.headless;
  d.norm = f.text(*hf_spec(type, "norm"));
  if (const Json* bias = hf_spec(type, "norm_bias"))
    d.norm = f.whole(*bias, 0, 1) != 0 ? "layer" : "layer-no-bias";
  if (const Json* given = hf_spec(type, "rms_where"); given != nullptr && f.find(given->as_text().substr(1)))
    d.norm = "rms";
  d.activation = f.text(*hf_spec(type, "activation"));
  const auto real = [&](const char* key, double fallback) {
    const Json* spec = hf_spec(type, key);
    if (spec == nullptr || !spec->is_text()) return spec != nullptr ? spec->as_real() : fallback;
    const Json* value = f.find(spec->as_text().substr(1));
    return value != nullptr ? value->as_real(0, 1e6) : fallback;
  };
  d.scale = real("scale", 1);
  d.gate_limit = real("gate_limit", 0);
  d.dropout = real("dropout", 0);
  if (d.dropout >= 1) f.config().fail(fmt::format("a dropout of {} leaves nothing", d.dropout));
  if (const Json* mixer = hf_spec(type, "mixer")) d.mixer = f.text(*mixer);
  Each(f, type, d).read();
  if (d.experts > 0 && d.active > d.experts)
    f.config().fail(fmt::format("{} active experts of {}: at most all of them", d.active, d.experts));
  return d;
}

}  // namespace tandem::models
