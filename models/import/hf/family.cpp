// SPDX-License-Identifier: Apache-2.0
// A row of models/import/hf/types with "family": that model of models/families with its own parameters.
#include <fmt/format.h>

#include <cmath>
#include <set>

#include "models/import/hf/layers.h"

namespace tandem::models {

namespace {

constexpr int64_t kLargest = 1'000'000'000;

/// Attention as the config asks for it, or as the library runs it for the type.
bool fused_attention(const HfFields& fields, const HfType& type) {
  for (const char* key : {"_attn_implementation", "attn_implementation"}) {
    const Json* said = fields.find(key);
    if (said != nullptr) return said->as_text() != "eager";
  }
  return type.library->text("attention", "sdpa") != "eager";
}

/// The parameters of a family that describe an activation. T5's "gated-gelu" is the gelu_new of a gated
/// network.
void add_activation(const HfFields& fields, const std::string& said, JsonWriter& out) {
  const bool gated = said.starts_with("gated-");
  const std::string name = said == "gated-gelu" ? "gelu_new" : gated ? said.substr(6) : said;
  const HfActivation activation = hf_activation(name, fields.config());
  bool known = false;
  for (const char* kind : {"gelu", "relu", "swish"}) {
    out[kind] = activation.type == kind ? 1 : 0;
    known = known || activation.type == kind;
  }
  if (!known)
    fields.config().fail(
        fmt::format("activation \"{}\" is not understood here; known: gelu, relu, silu", printable(name)));
  out["composed"] = activation.composed ? 1 : 0;
  out["kept"] = activation.kept;
}

/// "@field=text": whether it has that value; "@field": whether it is present, true and not 0; "@100*field": a
/// multiple of the number.
int64_t asked(const HfFields& fields, std::string_view spec) {
  const std::size_t equals = spec.find('='), times = spec.find('*');
  if (equals != std::string_view::npos) {
    const Json* value = fields.find(spec.substr(1, equals - 1));
    return value != nullptr && value->is_text() && value->as_text() == spec.substr(equals + 1) ? 1 : 0;
  }
  const bool scaled = times != std::string_view::npos;
  const Json* value = fields.find(spec.substr(scaled ? times + 1 : 1));
  if (value == nullptr) return 0;
  if (value->kind() == Json::Kind::boolean) return value->as_bool() ? 1 : 0;
  if (value->is_text() || value->is_array()) return value->is_text() || !value->items().empty() ? 1 : 0;
  const double number = value->as_real(-1e9, 1e9);
  return scaled ? std::llround(100 * number) : number != 0 ? 1 : 0;
}

/// From "layer_types": every n-th layer, including the first, sees the whole sequence; the others a window.
int64_t period_of(const HfFields& fields) {
  const Json* every = fields.find("global_attn_every_n_layers");
  const Json* types = fields.find("layer_types");
  if (types == nullptr) return every != nullptr ? every->as_int(1, kLargest) : 3;
  const auto& all = types->items();
  const auto whole = [&](std::size_t i) { return all[i].as_text() == "full_attention"; };
  std::size_t period = 1;
  while (period < all.size() && !whole(period)) ++period;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (whole(i) != (i % period == 0))
      types->fail("which layers see a window is understood where every n-th, from the first on, does not");
  }
  return static_cast<int64_t>(period);
}

/// For T5-like types: "is_gated_act" of the config, else by the name of the network.
bool gated_feed(const HfFields& fields) {
  for (const char* derived : {"is_gated_act", "dense_act_fn"}) fields.find(derived);
  const Json *gated = fields.config().find("is_gated_act"), *said = fields.find("feed_forward_proj");
  if (gated != nullptr && gated->kind() == Json::Kind::boolean) return gated->as_bool();
  return said != nullptr && said->as_text().starts_with("gated-");
}

/// For T5-like types: Transformers 5 always ties, whatever files say; older files say what checkpoints have.
bool tied_words(const HfFields& fields) {
  const Json *tied = fields.find("tie_word_embeddings"),
             *version = fields.config().find("transformers_version");
  const bool old = version == nullptr || !version->is_text() || version->as_text() < "5";
  return tied == nullptr || tied->as_bool() || !old;
}

void add_parameter(const HfFields& fields, const HfType& type, const std::string& key, const Json& spec,
                   JsonWriter& out) {
  if (key == "activation") return add_activation(fields, fields.text(spec), out);
  const bool words = spec.is_text() && spec.as_text().starts_with('@');
  if (words && spec.as_text() == "@attention") {
    out[key] = fused_attention(fields, type) ? 1 : 0;
  } else if (words && spec.as_text() == "@gated") {
    out[key] = gated_feed(fields) ? 1 : 0;
  } else if (words && spec.as_text() == "@tied") {
    out[key] = tied_words(fields) ? 1 : 0;
  } else if (words && spec.as_text() == "@period") {
    out[key] = period_of(fields);
  } else if (words) {
    out[key] = asked(fields, spec.as_text());
  } else {
    out[key] = fields.whole(spec, key == "sequence" ? 1 : 0, kLargest);
  }
}

/// Changes for the class, by the longest matching ending in the chain of rows; null: none.
const Json* task_of(const HfType& type) {
  for (const Json* row = type.row; row != nullptr; row = hf_like(*row)) {
    const Json* tasks = row->find("tasks");
    if (tasks == nullptr) continue;
    const Json* best = nullptr;
    std::size_t longest = 0;
    for (const auto& [ending, task] : tasks->members()) {
      const bool fits = ending == "Model" ? type.headless : type.reads.ends_with(ending);
      if (!fits || ending.size() < longest) continue;
      best = &task;
      longest = ending.size();
    }
    if (best != nullptr) return best;
  }
  return nullptr;
}

}  // namespace

JsonWriter hf_family(const HfFields& fields, const HfType& type, const std::string& family) {
  const Json* task = task_of(type);
  if (type.headless && task == nullptr)
    fields.config().fail(
        fmt::format("\"{}\" is not understood, since a model without an output layer "
                    "is not known of \"{}\"",
                    type.reads, type.name));
  JsonWriter out = {{"extends", family}};
  JsonWriter& parameters = out["parameters"] = JsonWriter::object();
  std::set<std::string> done;
  const auto add_all = [&](const Json* specs) {
    for (std::size_t i = 0; specs != nullptr && i < specs->members().size(); ++i) {
      const auto& [key, spec] = specs->members()[i];
      if (done.insert(key).second) add_parameter(fields, type, key, spec, parameters);
    }
  };
  add_all(task);
  for (const Json* row = type.row; row != nullptr; row = hf_like(*row)) add_all(row->find("model"));
  return out;
}

}  // namespace tandem::models
