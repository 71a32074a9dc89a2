// SPDX-License-Identifier: Apache-2.0
// A row of models/hf/types and the fields of a config -> what tells the decoder apart.
#include <fmt/format.h>

#include <algorithm>

#include "models/hf_layers.h"

namespace tandem::models {

namespace {

struct Size {
  const char* key;
  int64_t Decoder::*member;
  int64_t low;
};
constexpr int64_t kMost = 1'000'000'000;
constexpr Size kSizes[] = {{"layers", &Decoder::layers, 1},         {"hidden", &Decoder::hidden, 1},
                           {"heads", &Decoder::heads, 1},           {"kv_heads", &Decoder::kv_heads, 1},
                           {"head_dim", &Decoder::head_dim, 1},     {"feed", &Decoder::feed, 1},
                           {"vocabulary", &Decoder::vocabulary, 1}, {"sequence", &Decoder::sequence, 1},
                           {"positions", &Decoder::positions, 0},   {"parallel", &Decoder::parallel, 0},
                           {"experts", &Decoder::experts, 0},       {"active", &Decoder::active, 0},
                           {"shared", &Decoder::shared, 0},         {"dense_feed", &Decoder::dense_feed, 0},
                           {"query_rank", &Decoder::query_rank, 0}, {"kv_rank", &Decoder::kv_rank, 0},
                           {"rope_dim", &Decoder::rope_dim, 0},     {"value_dim", &Decoder::value_dim, 0},
                           {"qk_norm", &Decoder::qk_norm, 0},       {"window", &Decoder::window, 0}};

struct Flag {
  const char* key;
  bool Decoder::*member;
};
constexpr Flag kFlags[] = {{"rotary", &Decoder::rotary},
                           {"qkv_bias", &Decoder::qkv_bias},
                           {"out_bias", &Decoder::out_bias},
                           {"feed_bias", &Decoder::feed_bias},
                           {"head_bias", &Decoder::head_bias},
                           {"gated", &Decoder::gated},
                           {"tied", &Decoder::tied},
                           {"embedding_norm", &Decoder::embedding_norm},
                           {"final_norm", &Decoder::final_norm},
                           {"pre_norms", &Decoder::pre_norms},
                           {"post_norms", &Decoder::post_norms},
                           {"expert_bias", &Decoder::expert_bias},
                           {"router_scores", &Decoder::router_scores},
                           {"sigmoid_scores", &Decoder::sigmoid_scores},
                           {"normalized_scores", &Decoder::normalized_scores},
                           {"shared_gate", &Decoder::shared_gate},
                           {"sinks", &Decoder::sinks},
                           {"after_norms", &Decoder::after_norms},
                           {"inner_norms", &Decoder::inner_norms},
                           {"attention_gate", &Decoder::attention_gate},
                           {"qk_scales", &Decoder::qk_scales},
                           {"qk_norm_bias", &Decoder::qk_norm_bias}};

/// Attention as the config wants it, or as the library runs it for the type.
bool fused(const HfFields& fields, const HfType& type) {
  for (const char* key : {"_attn_implementation", "attn_implementation"}) {
    const Json* said = fields.find(key);
    if (said != nullptr) return said->as_text() != "eager";
  }
  return type.library->text("attention", "sdpa") != "eager";
}

/// An expression of the row for each layer `i`; lists of the config that say it themselves come first.
class Each {
 public:
  Each(const HfFields& fields, const HfType& type, int64_t layers)
      : f_(fields), type_(type), layers_(layers) {}
  std::vector<bool> windowed() const {
    return by_names("layer_types", {"sliding_attention", "chunked_attention", "local"}, "windowed");
  }
  std::vector<bool> dense() const {
    auto out = by_names("mlp_layer_types", {"dense"}, "dense");
    const Json* indices = f_.find("mlp_only_layers");
    for (std::size_t i = 0; indices != nullptr && i < indices->items().size(); ++i)
      out[static_cast<std::size_t>(indices->items()[i].as_int(0, layers_ - 1))] = true;
    return out;
  }

 private:
  std::vector<bool> by_names(const char* list, std::initializer_list<std::string_view> names,
                             const char* key) const {
    std::vector<bool> out(static_cast<std::size_t>(layers_));
    const Json* spec = hf_spec(type_, key);
    Variables variables = f_.variables();
    for (int64_t i = 0; spec != nullptr && i < layers_; ++i) {
      variables.set("i", i);
      out[static_cast<std::size_t>(i)] = f_.whole(*spec, variables).value_or(0) != 0;
    }
    const Json* said = hf_spec(type_, list);
    const bool has =
        said != nullptr && type_.library->at("fields").find(said->as_text().substr(1)) != nullptr;
    const Json* types = has ? f_.find(said->as_text().substr(1)) : nullptr;
    if (types == nullptr) return out;
    if (static_cast<int64_t>(types->items().size()) != layers_)
      types->fail(fmt::format("{} names of layers for {} layers", types->items().size(), layers_));
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::string& name = types->items()[i].as_text();
      out[i] = std::find(names.begin(), names.end(), name) != names.end();
      if (!out[i] && name != "full_attention" && name != "sparse" && name != "global")
        types->items()[i].fail(fmt::format("layers of the kind \"{}\" are not understood", printable(name)));
    }
    return out;
  }

  const HfFields& f_;
  const HfType& type_;
  const int64_t layers_;
};

void read_each(const HfFields& f, const HfType& type, Decoder& d) {
  d.each.resize(static_cast<std::size_t>(d.layers));
  const Each each(f, type, d.layers);
  const auto windowed = each.windowed();
  const auto dense = each.dense();
  for (std::size_t i = 0; i < d.each.size(); ++i)
    d.each[i] = {d.window > 0 && windowed[i], d.experts > 0 && dense[i]};
}

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
  if (name == "gelu_new" || name == "gelu_fast" || name == "gelu_python" || name == "gelu_python_tanh" ||
      name == "gelu_accurate")
    return {"gelu", true};
  if (name == "silu" || name == "swish") return {"swish"};
  if (name == "relu2") return {"relu", false, true};
  for (const char* same : {"relu", "relu6", "sigmoid", "tanh"}) {
    if (name == same) return {same};
  }
  if (name == "xielu") return {"xielu"};
  if (name == "hardswish") return {"hard-swish"};
  where.fail(
      fmt::format("activation \"{}\" is not understood; known: gelu, gelu_new, gelu_fast, gelu_pytorch_tanh, "
                  "silu, relu, relu2, relu6, xielu, sigmoid, tanh, hardswish",
                  printable(name)));
}

std::vector<JsonWriter> hf_activation_layers(const HfActivation& activation, const std::string& name) {
  JsonWriter layer = {{"type", activation.type}, {"name", activation.squared ? name + "_root" : name}};
  if (activation.composed) layer["composed"] = true;
  std::vector<JsonWriter> out;
  out.push_back(std::move(layer));
  if (!activation.squared) return out;
  JsonWriter square = hf_from_several("mul", {name + "_root", name + "_root"});
  square["name"] = name;
  out.push_back(std::move(square));
  return out;
}

Decoder hf_decoder(const HfFields& f, const HfType& type) {
  Decoder d;
  d.config = &f.config();
  for (const Size& size : kSizes) {
    if (const Json* spec = hf_spec(type, size.key)) d.*size.member = f.whole(*spec, size.low, kMost);
  }
  for (const Flag& flag : kFlags) {
    if (const Json* spec = hf_spec(type, flag.key)) d.*flag.member = f.whole(*spec, 0, kMost) != 0;
  }
  d.fused = fused(f, type);
  d.head = !type.headless;
  d.norm = f.text(*hf_spec(type, "norm"));
  if (const Json* bias = hf_spec(type, "norm_bias"))
    d.norm = f.whole(*bias, 0, 1) != 0 ? "layer" : "layer-no-bias";
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
  read_each(f, type, d);
  if (d.experts > 0 && d.active > d.experts)
    f.config().fail(fmt::format("{} active experts of {}: at most all of them", d.active, d.experts));
  return d;
}

}  // namespace tandem::models
