// SPDX-License-Identifier: Apache-2.0
#include "models/import/hf/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/data.h"

namespace tandem::models {

namespace {

/// Synonyms, whatever the type calls it.
constexpr std::string_view kExperts[] = {"num_experts", "num_local_experts", "n_routed_experts"};

/// An unknown field with one of these in its name describes the model.
constexpr std::string_view kWords[] = {"expert", "layer",     "head",   "hidden", "dim",  "size",  "rank",
                                       "norm",   "bias",      "kernel", "state",  "mlp",  "ffn",   "moe",
                                       "attn",   "attention", "window", "mamba",  "conv", "block", "depth"};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

/// Names that an expression uses.
std::vector<std::string> names_in(std::string_view text) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!is_letter(text[i])) continue;
    const std::size_t begin = i;
    while (i < text.size() && (is_letter(text[i]) || (text[i] >= '0' && text[i] <= '9'))) ++i;
    out.emplace_back(text.substr(begin, i - begin));
  }
  return out;
}

bool same(const Json& a, const Json& b) {
  const auto number = [](const Json& j) { return j.is_integer() || j.kind() == Json::Kind::real; };
  if (number(a) && number(b)) return a.as_real() == b.as_real();
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Json::Kind::boolean:
      return a.as_bool() == b.as_bool();
    case Json::Kind::text:
      return a.as_text() == b.as_text();
    case Json::Kind::array:
      return std::equal(a.items().begin(), a.items().end(), b.items().begin(), b.items().end(), same);
    case Json::Kind::object:
      return std::equal(
          a.members().begin(), a.members().end(), b.members().begin(), b.members().end(),
          [](const auto& x, const auto& y) { return x.first == y.first && same(x.second, y.second); });
    default:
      return true;
  }
}

/// Null, false, 0, or a list of nothing: what is absent cannot change a model.
bool is_nothing(const Json& value) {
  switch (value.kind()) {
    case Json::Kind::null:
      return true;
    case Json::Kind::boolean:
      return !value.as_bool();
    case Json::Kind::array:
      return value.items().empty();
    case Json::Kind::object:
      return value.members().empty();
    case Json::Kind::text:
      return value.as_text().empty();
    default:
      return value.as_real() == 0;
  }
}

const std::set<std::string, std::less<>>& ignored() {
  static const std::set<std::string, std::less<>> all = [] {
    std::set<std::string, std::less<>> out;
    const Json list = Json::load(data_root() + "/models/import/hf/ignored.json");
    for (const Json& name : list.items()) out.insert(name.as_text());
    return out;
  }();
  return all;
}

/// Layers that predict further words ("mtp_...") are not in the library's classes.
bool without_effect(std::string_view name) {
  return ignored().count(name) > 0 || name.ends_with("_token_id") || name.starts_with("mtp_");
}

bool is_number(const Json& value) { return value.is_integer() || value.kind() == Json::Kind::real; }

std::string shown(const Json& value) {
  switch (value.kind()) {
    case Json::Kind::null:
      return "null";
    case Json::Kind::boolean:
      return value.as_bool() ? "true" : "false";
    case Json::Kind::text:
      return fmt::format("\"{}\"", printable(value.as_text()));
    case Json::Kind::array:
      return "a list";
    case Json::Kind::object:
      return "an object";
    default:
      return fmt::format("{}", value.as_real());
  }
}

}  // namespace

HfFields::HfFields(const Json& config, const HfType& type) : config_(config), type_(type) {
  const Json& library = *type.library;
  if (const Json* aliases = library.find("aliases")) {
    for (const auto& [other, name] : aliases->members()) aliases_[other] = name.as_text();
  }
  const Json& fields = library.at("fields");
  for (const std::string_view name : kExperts) {
    if (fields.find(name) == nullptr) continue;
    for (const std::string_view other : kExperts) {
      if (other != name && fields.find(other) == nullptr) aliases_.emplace(other, name);
    }
    break;
  }
  for (const auto& [name, value] : fields.members()) add(name, value);
  read_config(config, "");
  read_per_layer();
  const Json *labels = config.find("id2label"), *usual = hf_of_row(type, "labels");
  const int64_t usual_labels = usual != nullptr ? usual->as_int() : 2;
  variables_.set("labels", labels != nullptr && labels->is_object()
                               ? std::max<int64_t>(1, static_cast<int64_t>(labels->members().size()))
                               : config.integer("num_labels", usual_labels, 1, 1'000'000));
  for (const auto& [name, value] : values_) {
    if (value->is_array()) variables_.set(name + "__count", static_cast<int64_t>(value->items().size()));
    if (value->is_text()) variables_.set(name + "__count", static_cast<int64_t>(value->as_text().size()));
    if (value->kind() == Json::Kind::boolean) {
      variables_.set(name, value->as_bool() ? 1 : 0);
    } else if (value->is_integer()) {
      variables_.set(name, value->as_int());
    } else if (value->kind() == Json::Kind::real && std::floor(value->as_real()) == value->as_real() &&
               std::abs(value->as_real()) < 1e15) {
      variables_.set(name, std::llround(value->as_real()));
    }
  }
}

/// Entries of a list are fields too: "depths__0".
void HfFields::add_entries(const std::string& name, const Json& list) {
  for (std::size_t i = 0; values_.erase(fmt::format("{}__{}", name, i)) > 0; ++i) {
  }
  for (std::size_t i = 0; i < list.items().size(); ++i)
    values_[fmt::format("{}__{}", name, i)] = &list.items()[i];
}

void HfFields::add(const std::string& name, const Json& value) {
  values_[name] = &value;
  if (value.is_array()) add_entries(name, value);
  if (!value.is_object()) return;
  for (const auto& [inner, of] : value.members()) add(name + "__" + inner, of);
}

void HfFields::read_config(const Json& object, const std::string& prefix) {
  for (const auto& [key, value] : object.members()) {
    const auto alias = aliases_.find(prefix + key);
    const std::string name = alias != aliases_.end() ? alias->second : prefix + key;
    if (given_.count(name) > 0 && !same(*values_.at(name), value))
      value.fail(
          fmt::format("\"{}\" and \"{}\" are one field, but they differ", printable(key), printable(name)));
    const auto usual = values_.find(name);
    if (value.kind() == Json::Kind::boolean && usual != values_.end() && is_number(*usual->second) &&
        !without_effect(name))
      value.fail(fmt::format("\"{}\": expected a number as {}, not {}", printable(key), shown(*usual->second),
                             shown(value)));
    given_.insert(name);
    values_[name] = &value;
    if (value.is_array()) add_entries(name, value);
    if (value.is_object() && prefix.size() < 64) read_config(value, name + "__");
  }
}

/// Overrides that are the same in all listed layers: "per_layer__head_dim".
void HfFields::read_per_layer() {
  const Json* layers = config_.find("per_layer_config");
  if (layers == nullptr || !layers->is_object() || layers->members().empty()) return;
  const Json& first = layers->members().front().second;
  for (const auto& [index, fields] : layers->members()) {
    if (!same(first, fields))
      fields.fail("per-layer fields are understood if they are equal in all listed layers");
  }
  for (const auto& [key, value] : first.members()) {
    values_["per_layer__" + key] = &value;
    given_.insert("per_layer__" + key);
  }
}

const Json* HfFields::find(std::string_view name) const {
  asked_.emplace(name);
  const auto at = values_.find(name);
  return at != values_.end() && at->second->kind() != Json::Kind::null ? at->second : nullptr;
}

std::optional<int64_t> HfFields::whole(const Json& spec, const Variables& variables) const {
  if (spec.is_array()) {
    std::optional<int64_t> out;
    for (const Json& each : spec.items()) {
      if (!out) out = whole(each, variables);
      if (!is_expression(each)) continue;
      for (const std::string& name : names_in(each.as_text())) asked_.insert(name);  // all, for finish()
    }
    return out;
  }
  if (spec.kind() == Json::Kind::boolean) return spec.as_bool() ? 1 : 0;
  if (!is_expression(spec)) return spec.as_int();
  bool all = true;
  const Json* blame = nullptr;
  for (const std::string& name : names_in(spec.as_text())) {
    asked_.insert(name);
    const auto at = values_.find(name);
    if (at != values_.end() && given_.count(name) > 0 && blame == nullptr) blame = at->second;
    if (at != values_.end() && at->second->kind() == Json::Kind::null) {
      all = false;
    } else if (variables.find(name) == nullptr) {
      if (at != values_.end() && !(at->second->is_text() && at->second->as_text() == "auto"))
        at->second->fail(fmt::format("\"{}\": expected a whole number", printable(name)));
      all = false;
    }
  }
  if (!all) return std::nullopt;
  return evaluate(spec.as_text(), variables, blame != nullptr ? blame->place() : config_.place());
}

int64_t HfFields::whole(const Json& spec, int64_t low, int64_t high) const {
  const Json& first = spec.is_array() ? spec.items().front() : spec;
  const auto names = first.is_text() ? names_in(first.as_text()) : std::vector<std::string>{};
  const std::string name = names.empty() ? "a size" : names.front();
  const auto given = values_.find(name);
  if (low > 0 && first.is_text() && first.as_text() == "=" + name && given != values_.end() &&
      given->second->kind() == Json::Kind::boolean)
    given->second->fail(fmt::format("\"{}\": expected a whole number, not {}", name, shown(*given->second)));
  const auto value = whole(spec);
  if (!value) config_.fail(fmt::format("\"{}\" is missing", name));
  if (*value >= low && *value <= high) return *value;
  const auto at = values_.find(name);
  (at != values_.end() && given_.count(name) > 0 ? *at->second : config_)
      .fail(fmt::format("{} is {}; it must lie between {} and {}", name, *value, low, high));
}

std::string HfFields::text(const Json& spec) const {
  if (spec.is_array()) {
    for (const Json& each : spec.items()) {
      if (!each.as_text().starts_with('@') || find(each.as_text().substr(1)) != nullptr) return text(each);
    }
    return "";
  }
  if (!spec.as_text().starts_with('@')) return spec.as_text();
  const Json* value = find(spec.as_text().substr(1));
  return value != nullptr ? value->as_text() : "";
}

void HfFields::only(const Json& table) const {
  for (const auto& [name, values] : table.members()) {
    const Json* value = find(name);
    const auto& all = values.items();
    const auto is = [&, given = value](const Json& v) {
      return is_expression(v) ? given->is_integer() && whole(v) == given->as_int() : same(v, *given);
    };
    if (value == nullptr || std::any_of(all.begin(), all.end(), is)) continue;
    std::string known;
    for (const Json& v : all) {
      known += known.empty() ? "" : ", ";
      known +=
          is_expression(v) ? fmt::format("{} ({})", whole(v).value_or(0), v.as_text().substr(1)) : shown(v);
    }
    (given_.count(name) > 0 ? *value : config_)
        .fail(fmt::format("\"{}\": {} is not understood of \"{}\"; understood: {}", name, shown(*value),
                          type_.name, known));
  }
}

void HfFields::must(const Json& rules) const {
  for (const Json& rule : rules.items()) {
    const auto holds = whole(rule.items().at(0));
    if (holds && *holds == 0)
      config_.fail(
          fmt::format("a \"{}\" is not understood where {}", type_.name, rule.items().at(1).as_text()));
  }
}

void HfFields::ignore(const Json& names) const {
  for (const Json& name : names.items()) asked_.insert(name.as_text());
}

void HfFields::finish() const {
  const Json& fields = type_.library->at("fields");
  for (const auto& [key, value] : config_.members()) {
    const auto alias = aliases_.find(key);
    const std::string name = alias != aliases_.end() ? alias->second : key;
    if (asked_.count(name) > 0 || without_effect(name) || name.starts_with('_')) continue;
    const Json* usual = fields.find(name);
    const bool asked_within = std::any_of(asked_.begin(), asked_.end(),
                                          [&](const std::string& a) { return a.starts_with(name + "__"); });
    const bool by_entry = value.is_array() && asked_.count(name + "__0") > 0;
    for (std::size_t i = 0; by_entry && i < value.items().size(); ++i) {
      if (asked_.count(fmt::format("{}__{}", name, i)) == 0)
        value.fail(fmt::format("\"{}\": {} entries are not understood of \"{}\"; understood: {}",
                               printable(key), value.items().size(), type_.name, i));
    }
    if (asked_within) continue;
    if (usual != nullptr ? same(*usual, value) : is_nothing(value)) continue;
    if (usual != nullptr)
      value.fail(fmt::format(
          "\"{}\": {} is not understood of \"{}\"{}", printable(key), shown(value), type_.name,
          usual->kind() == Json::Kind::null ? "" : fmt::format("; understood: {}", shown(*usual))));
    const bool speaks = std::any_of(std::begin(kWords), std::end(kWords), [&](std::string_view word) {
      return name.find(word) != std::string::npos;
    });
    if (speaks)
      value.fail(fmt::format(
          "\"{}\": {} is no field of \"{}\", and may change the model; take it out if it does not",
          printable(key), shown(value), type_.name));
  }
}

}  // namespace tandem::models
