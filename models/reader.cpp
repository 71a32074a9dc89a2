// SPDX-License-Identifier: Apache-2.0
#include "models/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "models/document.h"

namespace tandem::models {

namespace {

/// Stands for the output of an entry before the entry is unrolled, so that names may refer forward.
/// A symbol is bound to a layer, or to another symbol (a block's output, a repeat of nothing).
using Symbol = uint32_t;

struct Binding {
  bool bound = false, is_layer = false;
  uint32_t target = 0;
};

/// Names of one list of entries. Never iterated: order comes from the list.
struct Names {
  std::unordered_map<std::string, Symbol> symbols;
};

class Reader {
 public:
  explicit Reader(const Registry<LayerType>& types) : types_(types) {}

  ModelDescription read(const Json& document) {
    ModelDescription out;
    out.name = document.at("name").as_text();
    out.summary = document.text("summary", "");
    document.text("source", "");
    Variables variables;
    set_parameters(variables, document.find("parameters"));
    out.sample = read_sample(document.find("sample"), variables);
    out.published = read_published(document.find("published"));
    if ((blocks_ = document.find("blocks")) != nullptr) blocks_->members();
    Names names;
    const Symbol first = add_inputs(document.at("inputs"), variables, names);
    variables.set("index", 0);
    const Symbol last = unroll(document.at("layers"), "", variables, std::move(names), first, nullptr);
    resolve_inputs();
    out.output = layer_of(last, document.at("layers").place());
    out.layers = std::move(layers_);
    return out;
  }

 private:
  Symbol add_inputs(const Json& inputs, const Variables& variables, Names& names) {
    if (inputs.members().empty()) inputs.fail("a model needs at least one input");
    for (const auto& [name, shape] : inputs.members()) {
      check_name(name, shape);
      Layer input;
      input.name = name;
      input.attributes = Json::make_object(shape.place());
      if (shape.items().empty() || shape.items().size() > 8) shape.fail("a shape has 1 to 8 dimensions");
      for (const Json& d : shape.items()) {
        const int64_t size = whole_number(d, variables);
        if (size < 1 || size > kMaxDimension)
          d.fail(fmt::format("dimension {} is outside 1 .. {}", size, kMaxDimension));
        input.output.push_back(size);
      }
      try {
        elements(input.output);
      } catch (const InputError& error) {
        shape.fail(error.what());
      }
      names.symbols.emplace(name, add_layer(std::move(input), {}, inputs));
    }
    return 0;
  }

  Symbol add_symbol() {
    bindings_.emplace_back();
    return static_cast<Symbol>(bindings_.size() - 1);
  }

  void bind(Symbol symbol, bool is_layer, uint32_t target) { bindings_[symbol] = {true, is_layer, target}; }

  Symbol add_layer(Layer layer, std::vector<Symbol> from, const Json& blame) {
    if (layers_.size() >= kMaxLayers)
      blame.fail(fmt::format("the model has more than {} layers", kMaxLayers));
    layers_.push_back(std::move(layer));
    from_.push_back(std::move(from));
    const Symbol symbol = add_symbol();
    bind(symbol, true, static_cast<uint32_t>(layers_.size() - 1));
    return symbol;
  }

  void spend(int64_t values, const Json& blame) {
    if ((values_ += values) > kMaxValues) {
      blame.fail(fmt::format("the model has more than {} attribute values once its repeats are unrolled",
                             kMaxValues));
    }
  }

  static void check_name(const std::string& name, const Json& blame) {
    const bool good =
        !name.empty() && name.size() <= 64 && name.find('.') == std::string::npos && printable(name) == name;
    if (!good)
      blame.fail(fmt::format("\"{}\" is not a valid name: 1 to 64 characters, no dots", printable(name)));
  }

  /// What the entry is, for its default name: type, block, or "group".
  std::string kind_of(const Json& entry) const {
    const Json* type = entry.find("type");
    const Json* block = entry.find("block");
    const Json* layers = entry.find("layers");
    // A recurrent layer may have an attribute "layers" of its own.
    const bool one =
        block != nullptr ? type == nullptr && layers == nullptr : type != nullptr || layers != nullptr;
    if (!one) entry.fail("an entry has exactly one of \"type\" (a layer), \"block\" or \"layers\" (a group)");
    return type != nullptr ? type->as_text() : block != nullptr ? block->as_text() : "group";
  }

  /// Unrolls one list of entries and gives the symbol of its output.
  Symbol unroll(const Json& entries, const std::string& prefix, const Variables& variables, Names names,
                Symbol first, const Json* output) {
    if (entries.items().empty()) entries.fail("there must be at least one layer here");
    if (++depth_ > kMaxNesting)
      entries.fail(fmt::format("blocks are nested deeper than {} levels", kMaxNesting));
    std::unordered_map<std::string, int> counts;
    std::vector<std::pair<Symbol, std::string>> own;
    for (const Json& entry : entries.items()) {
      spend(1, entry);
      const std::string kind = kind_of(entry);
      const int number = ++counts[kind];
      const Json* given = entry.find("name");
      std::string name = given != nullptr ? given->as_text() : fmt::format("{}{}", kind, number);
      if (given != nullptr) check_name(name, *given);
      own.emplace_back(add_symbol(), name);
      if (!names.symbols.emplace(name, own.back().first).second) {
        (given != nullptr ? *given : entry)
            .fail(fmt::format("the name \"{}\" stands twice here", printable(name)));
      }
    }
    Symbol previous = first;
    for (std::size_t i = 0; i < own.size(); ++i) {
      const Json& entry = entries.items()[i];
      std::vector<Symbol> from = sources(entry, names, previous);
      const std::string path = prefix + own[i].second;
      if (path.size() > kMaxPath)
        entry.fail(fmt::format("the full name of this layer exceeds {} characters", kMaxPath));
      previous = own[i].first;
      if (entry.find("type") != nullptr) {
        bind(previous, false, layer(entry, path, variables, std::move(from)));
      } else {
        bind(previous, false, repeat(entry, path, variables, std::move(from)));
      }
    }
    --depth_;
    return output != nullptr ? lookup(*output, names) : previous;
  }

  Symbol lookup(const Json& name, const Names& names) const {
    const auto at = names.symbols.find(name.as_text());
    if (at != names.symbols.end()) return at->second;
    std::vector<std::string> known;
    for (const auto& entry : names.symbols) known.push_back(entry.first);
    std::sort(known.begin(), known.end());
    if (known.size() > 2000) known.resize(2000);  // the search is for people, and quadratic
    name.fail(fmt::format("nothing here is named \"{}\".{}", printable(name.as_text()),
                          did_you_mean(name.as_text(), known)));
  }

  std::vector<Symbol> sources(const Json& entry, const Names& names, Symbol previous) {
    const Json* from = entry.find("from");
    if (from == nullptr) return {previous};
    if (from->is_text()) return {lookup(*from, names)};
    if (from->items().empty()) from->fail("\"from\" must name at least one layer");
    spend(static_cast<int64_t>(from->items().size()), *from);
    std::vector<Symbol> out;
    for (const Json& name : from->items()) out.push_back(lookup(name, names));
    return out;
  }

  Symbol layer(const Json& entry, const std::string& path, const Variables& variables,
               std::vector<Symbol> from) {
    Layer out;
    out.name = path;
    const Json& type = entry.at("type");
    out.type = &types_.at(type.as_text(), type.place());
    out.attributes = Json::make_object(entry.place());
    if (entry.members().size() > 64) entry.fail("a layer has at most 64 attributes");
    for (const auto& [key, value] : entry.members()) {
      if (key == "type" || key == "name" || key == "from") continue;
      out.attributes.set(key, resolve(value, variables));
    }
    return add_layer(std::move(out), std::move(from), entry);
  }

  /// The attribute with its expressions, alone or in a list, worked out.
  Json resolve(const Json& value, const Variables& variables) {
    spend(1, value);
    if (value.is_text()) spend(static_cast<int64_t>(value.as_text().size() / 32), value);
    if (is_expression(value))
      return Json::make_integer(evaluate(value.as_text(), variables, value.place()), value.place());
    if (!value.is_array()) return value;
    Json out = value;
    spend(static_cast<int64_t>(value.items().size()), value);
    for (std::size_t i = 0; i < value.items().size(); ++i) {
      const Json& item = value.items()[i];
      if (!is_expression(item)) continue;
      const int64_t number = evaluate(item.as_text(), variables, item.place());
      out.set_path(std::to_string(i), std::to_string(number), item.place());
    }
    return out;
  }

  /// A block or an inline group, as often as it says; each round feeds the next.
  Symbol repeat(const Json& entry, const std::string& path, const Variables& variables,
                std::vector<Symbol> from) {
    const Json* times = entry.find("repeat");
    const int64_t rounds = times != nullptr ? whole_number(*times, variables) : 1;
    if (rounds < 0 || rounds > kMaxRepeat)
      times->fail(fmt::format("\"repeat\" is {}, outside 0 .. {}", rounds, kMaxRepeat));
    Variables round(&variables);
    for (int64_t i = 0; i < rounds; ++i) {
      if (times != nullptr) round.set("index", i);
      const std::string prefix = times != nullptr ? fmt::format("{}.{}.", path, i) : path + ".";
      Names names;
      for (std::size_t k = 0; k < from.size(); ++k) {
        names.symbols.emplace(k == 0 ? std::string("in") : fmt::format("in{}", k + 1), from[k]);
      }
      from[0] = entry.find("block") != nullptr ? block(entry, prefix, round, std::move(names), from[0])
                                               : group(entry, prefix, round, std::move(names), from[0]);
    }
    return from[0];
  }

  Symbol group(const Json& entry, const std::string& prefix, const Variables& variables, Names names,
               Symbol first) {
    entry.only({"layers", "name", "repeat", "from", "output"});
    return unroll(entry.at("layers"), prefix, variables, std::move(names), first, entry.find("output"));
  }

  Symbol block(const Json& entry, const std::string& prefix, const Variables& variables, Names names,
               Symbol first) {
    const Json& wanted = entry.at("block");
    const std::string& name = wanted.as_text();
    const Json* body = blocks_ != nullptr ? blocks_->find(name) : nullptr;
    if (body == nullptr) {
      wanted.fail(
          fmt::format("no block \"{}\".{}", printable(name),
                      did_you_mean(name, blocks_ != nullptr ? blocks_->keys() : std::vector<std::string>{})));
    }
    body->only({"parameters", "layers", "output"});
    if (std::find(open_.begin(), open_.end(), name) != open_.end()) {
      wanted.fail(fmt::format("the block \"{}\" contains itself", printable(name)));
    }
    open_.push_back(name);
    // Defaults see the model's parameters; what the entry gives is worked out where it stands.
    const Json* declared = body->find("parameters");
    Json defaults = declared != nullptr ? *declared : Json::make_object(body->place());
    std::vector<std::string> valid = defaults.keys();
    for (const char* key : {"block", "name", "repeat", "from"}) valid.emplace_back(key);
    entry.only(valid);
    for (const auto& [key, value] : entry.members()) {
      if (key == "block" || key == "name" || key == "repeat" || key == "from") continue;
      spend(1, value);
      defaults.set(key, Json::make_integer(whole_number(value, variables), value.place()));
    }
    spend(static_cast<int64_t>(defaults.members().size()), entry);
    Variables inner(variables.outermost());
    inner.set("index", *variables.find("index"));
    set_parameters(inner, &defaults);
    const Symbol out =
        unroll(body->at("layers"), prefix, inner, std::move(names), first, body->find("output"));
    open_.pop_back();
    return out;
  }

  /// The layer that a symbol stands for; shortens the chain for the next asker. A chain longer than there are
  /// symbols runs in a circle.
  uint32_t layer_of(Symbol symbol, const Place& place) {
    Symbol end = symbol;
    for (std::size_t steps = 0; !bindings_[end].is_layer; ++steps) {
      if (steps > bindings_.size()) throw InputError(place, "an entry without layers feeds itself");
      end = bindings_[end].target;
    }
    const Binding found = bindings_[end];
    while (symbol != end) {
      const Symbol next = bindings_[symbol].target;
      bindings_[symbol] = found;
      symbol = next;
    }
    return found.target;
  }

  void resolve_inputs() {
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      for (const Symbol s : from_[i]) layers_[i].inputs.push_back(layer_of(s, layers_[i].attributes.place()));
    }
  }

  const Registry<LayerType>& types_;
  const Json* blocks_ = nullptr;
  std::vector<Layer> layers_;
  std::vector<std::vector<Symbol>> from_;  ///< per layer
  std::vector<Binding> bindings_;
  std::vector<std::string> open_;  ///< blocks being unrolled, outermost first
  std::size_t depth_ = 0;
  int64_t values_ = 0;
};

}  // namespace

ModelDescription read_model(const Json& document, const Settings& overrides, const Place& place,
                            const Registry<LayerType>& types) {
  const Json whole = resolve_document(document, overrides, place);
  if (overrides.empty()) return Reader(types).read(whole);
  std::string asked;
  for (const auto& [key, value] : overrides)
    asked += fmt::format("{}{}={}", asked.empty() ? "" : ",", key, value);
  try {
    return Reader(types).read(whole);
  } catch (const InputError& error) {  // the file is right with its own parameters
    throw InputError(place, fmt::format("with {}: {}", printable(asked), error.what()));
  }
}

}  // namespace tandem::models
