// SPDX-License-Identifier: Apache-2.0
#include "models/adapter.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "base/options.h"
#include "base/text.h"

namespace tandem::models {

namespace {

constexpr std::array<std::string_view, 2> kAdapters{"lora", "qlora"};

/// What families and imported configurations call the linear layers of a block.
const std::map<std::string, std::vector<std::string>, std::less<>>& groups() {
  static const std::map<std::string, std::vector<std::string>, std::less<>> all{
      {"attention", {"query", "key", "value", "projection", "qkv", "query_down", "kv_down", "kv"}},
      {"mlp", {"gate", "up", "down"}},
      {"head", {"head"}},
  };
  return all;
}

bool in_group(const std::string& group, std::string_view name) {
  const auto& names = groups().find(group)->second;
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string_view last_part(std::string_view path) { return path.substr(path.rfind('.') + 1); }

/// "self_query" of a decoder with two attentions, and "shared_up" next to experts, are a query and an up.
std::string_view without_prefix(std::string_view name) {
  for (const std::string_view prefix : {"self_", "cross_", "shared_"}) {
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  }
  return name;
}

bool is_type(const Layer& layer, std::string_view type) {
  return layer.type != nullptr && layer.type->name == type;
}

/// Experts of most types lie in stacks that PEFT 0.21 gives pairs of matrices, and so their router. Of some
/// it adapts the router alone ("pairs": "router"), of others, and of those with biases (GPT-OSS), nothing.
std::string pairs_of(const Layer& layer) {
  if (!is_type(layer, "experts") || Attributes(layer.attributes).boolean("bias", false)) return "none";
  return Attributes(layer.attributes).text("pairs", "all");
}
bool takes_pairs(const Layer& layer) { return pairs_of(layer) == "all"; }

bool is_packed(const Layer& layer) { return Attributes(layer.attributes).boolean("packed", false); }

/// The names of layers that somebody wants adapted, and which of them there are.
class Wanted {
 public:
  /// `experts`: some take pairs; then "mlp" and "all-linear" are these and their routers, as PEFT has it.
  Wanted(const Adapter& adapter, bool experts) : names_(adapter.on), experts_(experts) {
    const auto usual = std::find(names_.begin(), names_.end(), "default");
    if (usual != names_.end()) {
      names_.erase(usual);
      names_.insert(names_.end(), {"query", "value"});
    }
    found_.resize(names_.size());
  }

  /// Whether a linear layer that answers to these names is wanted. All that know it are marked as found.
  bool selects(const std::vector<std::string>& answers, bool output) {
    std::set<std::string, std::less<>> all(answers.begin(), answers.end());
    for (const auto& [group, members] : groups()) {
      const bool other = group == "mlp" && experts_;
      if (!other &&
          std::any_of(members.begin(), members.end(), [&](const auto& m) { return all.contains(m); }))
        all.insert(group);
    }
    const bool feed = std::any_of(answers.begin(), answers.end(),
                                  [](const std::string& name) { return in_group("mlp", name); });
    if (!output && !(feed && experts_)) all.insert("all-linear");
    return knows(all);
  }
  /// Experts are in "mlp" even where none of them takes pairs.
  bool selects_experts(const std::string& name) { return knows({name, "experts", "mlp", "all-linear"}); }
  bool selects_router() { return knows({"router", "mlp", "all-linear"}); }

  /// The first name that no layer answers to; null: all are found.
  const std::string* missing() const {
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (!found_[i]) return &names_[i];
    }
    return nullptr;
  }
  std::vector<std::string> known() const { return {known_.begin(), known_.end()}; }

 private:
  bool knows(const std::set<std::string, std::less<>>& answers) {
    bool any = false;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (!answers.contains(names_[i])) continue;
      found_[i] = any = true;
    }
    known_.insert(answers.begin(), answers.end());
    return any;
  }

  std::vector<std::string> names_;
  std::vector<bool> found_;
  std::set<std::string, std::less<>> known_;
  bool experts_;
};

void set(Json& attributes, const char* key, int64_t value) {
  attributes.set(key, Json::make_integer(value, attributes.place()));
}

void freeze(Layer& layer) {
  const bool other = is_type(layer, "tied-linear") || layer.attributes.find("shared") != nullptr;
  if (!layer.parameters.empty() || other) set(layer.attributes, "frozen", 1);
}

/// The layer that nobody reads; a loss only where there is no other.
uint32_t output_of(const std::vector<Layer>& layers) {
  std::vector<bool> read(layers.size());
  for (const Layer& l : layers) {
    for (const uint32_t from : l.inputs) read[from] = true;
  }
  uint32_t out = static_cast<uint32_t>(layers.size() - 1);
  for (uint32_t i = 0; i < layers.size(); ++i) {
    if (!read[i] && !layers[i].output.empty()) out = i;
  }
  return out;
}

/// The layers of a model again, in their order, with adapters between them.
class Adapted {
 public:
  Adapted(const Graph& graph, const Adapter& adapter)
      : old_(graph.layers()),
        adapter_(adapter),
        wanted_(adapter, std::any_of(old_.begin(), old_.end(), takes_pairs)),
        sequences_(graph.sample().unit == "sequences") {
    readers_.resize(old_.size());
    for (uint32_t i = 0; i < old_.size(); ++i) {
      for (const uint32_t from : old_[i].inputs) readers_[from].push_back(i);
    }
    for (uint32_t i = 0; i < old_.size(); ++i) add(i);
  }

  int64_t adapters() const { return adapters_; }
  const Wanted& wanted() const { return wanted_; }
  std::vector<Layer>& layers() { return layers_; }
  uint32_t now(uint32_t old) const { return now_[old].front(); }

 private:
  void add(uint32_t i) {
    Layer layer = old_[i];
    layer.inputs.clear();
    for (const uint32_t from : old_[i].inputs)
      layer.inputs.insert(layer.inputs.end(), now_[from].begin(), now_[from].end());
    if (layer.type == nullptr) {
      now_.push_back({push(std::move(layer))});
      return;
    }
    freeze(layer);
    if (layer.type->name == "experts") {
      now_.push_back({experts(std::move(layer))});
    } else if (layer.type->name != "linear") {
      now_.push_back({push(std::move(layer))});
    } else if (const Layer* attention = packed_for(i); attention == nullptr) {
      now_.push_back({linear(std::move(layer), is_output(i))});
    } else if (is_packed(layer)) {
      now_.push_back({linear(std::move(layer), false, {"qkv", "query", "key", "value"})});
    } else {
      now_.push_back(unpacked(layer, *attention));
    }
  }

  /// Of a language model: what makes words or classes is left out of "all-linear". A picture's classes are
  /// not, since PEFT knows such a layer by the words that it makes.
  bool is_output(uint32_t i) const {
    if (!sequences_) return false;
    return last_part(old_[i].name) == "head" || old_[i].attributes.text("split", "whole") == "vocabulary" ||
           std::any_of(readers_[i].begin(), readers_[i].end(),
                       [&](uint32_t reader) { return old_[reader].output.empty(); });
  }

  uint32_t experts(Layer layer) {
    const bool experts = wanted_.selects_experts(std::string(last_part(layer.name))),
               router = wanted_.selects_router();
    const std::string pairs = pairs_of(layer);
    if ((experts && pairs == "all") || (router && pairs != "none")) {
      if (adapter_.dropout > 0)
        layer.attributes.fail(
            "experts' inputs are shared by their pairs of matrices: dropout is not understood");
      adapters_ += (experts && pairs == "all") + router;
      if (experts && pairs == "all") set(layer.attributes, "adapter_rank", adapter_.rank);
      if (router) set(layer.attributes, "router_rank", adapter_.rank);
    }
    if (adapter_.stores_experts && !adapter_.store.empty() && !block_of(layer).empty())
      layer.attributes.set("stored", Json::make_text(adapter_.store, layer.attributes.place()));
    return push(std::move(layer));
  }

  /// The attention that alone reads a projection of queries, keys and values.
  const Layer* packed_for(uint32_t i) const {
    if (readers_[i].size() != 1) return nullptr;
    const Layer& reader = old_[readers_[i].front()];
    return reader.type->name == "attention" && reader.inputs.size() == 1 ? &reader : nullptr;
  }

  std::vector<uint32_t> unpacked(const Layer& packed, const Layer& attention) {
    const Attributes said(attention.attributes);
    const int64_t heads = said.integer("heads", 1), kv_heads = said.integer("kv_heads", heads);
    const bool shared = said.boolean("shared_keys", false),
               one = shared || said.boolean("keys_as_values", false);
    const int64_t head_dim = said.integer("head_dim", packed.output.back() / (heads + (shared ? 0
                                                                                       : one  ? 1
                                                                                              : 2) *
                                                                                          kv_heads));
    const std::pair<const char*, int64_t> parts[] = {
        {"query", heads * head_dim},
        {"key", shared ? 0 : kv_heads * head_dim},
        {"value", one ? 0 : kv_heads * said.integer("v_head_dim", head_dim)}};
    const std::string path = packed.name.substr(0, packed.name.size() - last_part(packed.name).size());
    std::vector<uint32_t> out;
    for (const auto& [part, features] : parts) {
      if (features == 0) continue;
      Layer layer = packed;
      layer.name = path + part;
      set(layer.attributes, "features", features);
      layer.output.back() = features;
      out.push_back(linear(std::move(layer), false, {part, "qkv"}));
    }
    return out;
  }

  /// A linear layer, with an adapter where it gets one. Layers that are one matrix in the code that people
  /// fine-tune share what reads their input: rank x outputs of all is then what that matrix would have.
  uint32_t linear(Layer layer, bool output, std::vector<std::string> answers = {}) {
    const bool shares = answers.empty() && is_packed(layer);
    answers.emplace_back(last_part(layer.name));
    answers.emplace_back(without_prefix(last_part(layer.name)));
    if (shares) answers.insert(answers.end(), {"gate_up", "gate", "up"});
    if (output) answers.emplace_back("head");
    const std::string base = layer.name, split = layer.attributes.text("split", "whole");
    const std::size_t axis = feature_axis(Attributes(layer.attributes), layer.output);
    const int64_t features = layer.output[axis];
    const Place place = layer.attributes.place();
    const uint32_t input = layer.inputs.front();
    if (!adapter_.store.empty() && !block_of(layer).empty()) {
      layer.attributes.set("stored", Json::make_text(adapter_.store, place));
      if (adapter_.keeps_inputs) set(layer.attributes, "keeps_input", 1);
    }
    const bool again = Attributes(layer.attributes).boolean("shared", false);
    const uint32_t whole = push(std::move(layer));
    if (!wanted_.selects(answers, output)) return whole;
    ++adapters_;
    uint32_t x = input;
    const auto shared = shares ? first_halves_.find(input) : first_halves_.end();
    if (shared == first_halves_.end() && adapter_.dropout > 0) {
      Json attributes = Json::make_object(place);
      attributes.set_path("p", fmt::format("{}", adapter_.dropout), place, true);
      x = push(made(base + ".lora_dropout", "dropout", {x}, std::move(attributes)));
    }
    // Between devices A is whole and B divided where outputs are, and the other way round where inputs are.
    const uint32_t a = shared != first_halves_.end() ? shared->second
                                                     : matrix(base + ".lora_a", x, adapter_.rank,
                                                              split == "rows" ? "rows" : "whole", place);
    if (shares) first_halves_[input] = a;
    const uint32_t b = matrix(base + ".lora_b", a, features, split == "rows" ? "whole" : split, place);
    if (axis + 1 != layers_[whole].output.size()) {
      set(layers_[a].attributes, "axis", static_cast<int64_t>(axis));
      set(layers_[b].attributes, "axis", static_cast<int64_t>(axis));
    }
    for (const uint32_t of : {a, b}) {
      if (again) set(layers_[of].attributes, "shared", 1);
    }
    // The model starts as it was (Hu et al. 2021, section 4.1).
    set(layers_[b].attributes, "starts_at_zero", 1);
    return push(made(base + ".adapted", "add", {whole, b}, Json::make_object(place)));
  }

  uint32_t matrix(std::string name, uint32_t from, int64_t features, const std::string& split, Place place) {
    Json attributes = Json::make_object(place);
    set(attributes, "features", features);
    set(attributes, "bias", 0);
    attributes.set("split", Json::make_text(split, place));
    return push(made(std::move(name), "linear", {from}, std::move(attributes)));
  }

  static Layer made(std::string name, std::string_view type, std::vector<uint32_t> inputs, Json attributes) {
    Layer l;
    l.name = std::move(name);
    l.type = &layers_registry().at(type);
    l.inputs = std::move(inputs);
    l.attributes = std::move(attributes);
    return l;
  }

  uint32_t push(Layer layer) {
    layers_.push_back(std::move(layer));
    return static_cast<uint32_t>(layers_.size() - 1);
  }

  const std::vector<Layer>& old_;
  const Adapter& adapter_;
  Wanted wanted_;
  const bool sequences_;                        ///< its samples
  std::map<uint32_t, uint32_t> first_halves_;   ///< [layer that is read]: of layers that are one matrix
  std::vector<std::vector<uint32_t>> readers_;  ///< [layer of the model]
  std::vector<std::vector<uint32_t>> now_;      ///< [layer of the model]: what stands in its place
  std::vector<Layer> layers_;
  int64_t adapters_ = 0;
};

const std::vector<OptionSpec>& adapter_options() {
  using Type = OptionSpec::Type;
  static const std::vector<OptionSpec> all{
      {"rank", Type::count, "8", "of the learned matrices", "", 1, 65536},
      {"on", Type::text, "default",
       "layers that get them, joined by +: default = query+value, as PEFT has it; all-linear = PEFT's: all "
       "linear layers but the output's; attention, mlp (with experts: these and their router), head, or "
       "names"},
      {"dropout", Type::real, "0", "share of the adapter's inputs that are zeroed", "", 0, 0.99},
      {"store", Type::choice, "auto",
       "the weights of linear layers in blocks: half = as they are computed with, nf4 = 4 bits with a scale "
       "for each 64, nf4-dq = these scales in 8 bits, int8; auto = nf4-dq of qlora, else half",
       "auto|half|nf4|nf4-dq|int8"},
      {"inputs", Type::choice, "dropped",
       "of layers with stored weights: kept = in memory until backward, as bitsandbytes of 2023 did",
       "dropped|kept"},
      {"experts", Type::choice, "half",
       "with stored weights, those of experts: half = as they are computed with, as bitsandbytes leaves them "
       "under transformers 5; stored = as of linear layers, which they are in transformers 4",
       "half|stored"},
  };
  return all;
}

}  // namespace

Adapter parse_adapter(const std::string& text, const Place& place) {
  const Selection selection = parse_selection(text, place);
  const std::vector<std::string> valid(kAdapters.begin(), kAdapters.end());
  if (std::find(valid.begin(), valid.end(), selection.name) == valid.end())
    throw InputError(place, fmt::format("no adapter \"{}\".{} Valid: {}", printable(selection.name),
                                        did_you_mean(selection.name, valid), fmt::join(valid, ", ")));
  const Options o(adapter_options(), selection.settings, selection.name, place);
  Adapter out{selection.name,
              o.count("rank"),
              o.real("dropout"),
              split(o.text("on"), '+'),
              {},
              o.text("inputs") == "kept",
              o.text("experts") == "stored"};
  const std::string& store = o.text("store");
  if (store != "half") out.store = store != "auto" ? store : selection.name == "qlora" ? "nf4-dq" : "";
  return out;
}

std::string to_text(const Adapter& a) {
  std::string out = fmt::format("{}:rank={},on={}", a.name, a.rank, fmt::join(a.on, "+"));
  if (a.dropout > 0) out += fmt::format(",dropout={}", a.dropout);
  if (a.store != (a.name == "qlora" ? "nf4-dq" : ""))
    out += fmt::format(",store={}", a.store.empty() ? "half" : a.store);
  if (a.keeps_inputs) out += ",inputs=kept";
  if (a.stores_experts) out += ",experts=stored";
  return out;
}

Graph with_adapter(const Graph& graph, const Adapter& adapter, const Place& place) {
  Adapted adapted(graph, adapter);
  const std::string* missing = adapted.wanted().missing();
  if (missing != nullptr || adapted.adapters() == 0) {
    const std::string name = missing != nullptr ? *missing : fmt::format("{}", fmt::join(adapter.on, "+"));
    const std::vector<std::string> known = adapted.wanted().known();
    throw InputError(place,
                     known.empty() ? fmt::format("{} has no linear layer", graph.name())
                     : missing == nullptr
                         ? fmt::format("the experts of {} get no pairs, and \"{}\" names no other "
                                       "layer",
                                       graph.name(), printable(name))
                         : fmt::format("{} has no linear layer that \"{}\" names.{} It has {}", graph.name(),
                                       printable(name), did_you_mean(name, known), fmt::join(known, ", ")));
  }
  const uint32_t output = adapted.now(output_of(graph.layers()));
  return Graph::of({fmt::format("{}, {}", graph.name(), to_text(adapter)), graph.summary(), graph.sample(),
                    std::nullopt, std::move(adapted.layers()), output});
}

Graph with_frozen(const Graph& graph, const std::vector<std::string>& names, const Place& place) {
  std::vector<Layer> layers = graph.layers();
  for (const std::string& name : names) {
    const auto stands_under = [&](const Layer& l) {
      return l.name.starts_with(name) && (l.name.size() == name.size() || l.name[name.size()] == '.');
    };
    const bool path = std::any_of(layers.begin(), layers.end(), stands_under);
    bool found = false;
    std::vector<std::string> firsts;
    for (Layer& l : layers) {
      if (!l.parameters.empty()) firsts.push_back(l.name.substr(0, l.name.find('.')));
      if (path ? !stands_under(l) : last_part(l.name) != name) continue;
      freeze(l);
      found = found || !l.parameters.empty();
    }
    if (!found)
      throw InputError(place,
                       fmt::format("{} has no layer with weights that is called \"{}\" or stands under "
                                   "it.{} All: tandem show model {}",
                                   graph.name(), printable(name), did_you_mean(name, firsts), graph.name()));
  }
  const uint32_t output = output_of(layers);
  Graph out = Graph::of({fmt::format("{}, {} frozen", graph.name(), fmt::join(names, " and ")),
                         graph.summary(), graph.sample(), std::nullopt, std::move(layers), output});
  if (out.parameter_elements() == 0)
    throw InputError(place, fmt::format("nothing of {} is left to learn", graph.name()));
  return out;
}

}  // namespace tandem::models
