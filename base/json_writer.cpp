// SPDX-License-Identifier: Apache-2.0
#include "base/json_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/json.h"

namespace tandem::base {

JsonWriter::JsonWriter(std::initializer_list<Member> members) : value_(Object()) {
  for (const Member& m : members) (*this)[m.key] = std::move(m.value);
}

JsonWriter::JsonWriter(const Json& json) {
  switch (json.kind()) {
    case Json::Kind::null:
      return;
    case Json::Kind::boolean:
      value_ = json.as_bool();
      return;
    case Json::Kind::integer:
      value_ = json.as_int();
      return;
    case Json::Kind::real:
      value_ = json.as_real();
      return;
    case Json::Kind::text:
      value_ = json.as_text();
      return;
    case Json::Kind::array:
      value_ = Array();
      for (const Json& item : json.items()) push_back(JsonWriter(item));
      return;
    case Json::Kind::object:
      value_ = Object();
      for (const auto& [key, value] : json.members()) (*this)[key] = JsonWriter(value);
  }
}

JsonWriter JsonWriter::object() {
  JsonWriter out;
  out.value_ = Object();
  return out;
}

JsonWriter JsonWriter::array(std::initializer_list<JsonWriter> values) {
  JsonWriter out;
  out.value_ = Array(values);
  return out;
}

JsonWriter JsonWriter::finite_or_null(double value) {
  return std::isfinite(value) ? JsonWriter(value) : JsonWriter();
}

JsonWriter& JsonWriter::operator[](std::string_view key) {
  if (std::holds_alternative<std::nullptr_t>(value_)) value_ = Object();
  TANDEM_CHECK(std::holds_alternative<Object>(value_));
  Object& members = std::get<Object>(value_);
  const auto found =
      std::find_if(members.begin(), members.end(), [&](const auto& member) { return member.first == key; });
  return found != members.end() ? found->second : members.emplace_back(key, nullptr).second;
}

void JsonWriter::push_back(JsonWriter value) {
  if (std::holds_alternative<std::nullptr_t>(value_)) value_ = Array();
  TANDEM_CHECK(std::holds_alternative<Array>(value_));
  std::get<Array>(value_).push_back(std::move(value));
}

JsonWriter& JsonWriter::back() {
  TANDEM_CHECK(std::holds_alternative<Array>(value_) && !std::get<Array>(value_).empty());
  return std::get<Array>(value_).back();
}

struct JsonWriter::Dumper {
  using Tree = nlohmann::ordered_json;

  /// `key`: the nearest one, for the error.
  static Tree tree(const JsonWriter& from, std::string_view key) {
    if (const auto* members = std::get_if<Object>(&from.value_)) {
      Tree::object_t out;
      out.reserve(members->size());
      for (const auto& [name, value] : *members) out.push_back({name, tree(value, name)});
      return out;
    }
    if (const auto* values = std::get_if<Array>(&from.value_)) {
      Tree::array_t out;
      out.reserve(values->size());
      for (const JsonWriter& value : *values) out.push_back(tree(value, key));
      return out;
    }
    return std::visit(
        [&](const auto& value) -> Tree {
          using T = std::decay_t<decltype(value)>;
          if constexpr (std::is_same_v<T, double>) {
            if (!std::isfinite(value))
              throw std::logic_error(fmt::format("JSON cannot hold {}, the value of \"{}\"", value, key));
          }
          if constexpr (std::is_same_v<T, Array> || std::is_same_v<T, Object>)
            return nullptr;  // above
          else
            return value;
        },
        from.value_);
  }

  static std::string text(const Tree& tree, int indent) {
    return tree.dump(indent, ' ', false, Tree::error_handler_t::replace);
  }

  /// On one line, with a space after each comma and colon.
  static std::string line(const Tree& tree) {
    std::string spaced;
    bool quoted = false, escaped = false;
    for (const char c : text(tree, -1)) {
      if (c == '"' && !escaped) quoted = !quoted;
      escaped = c == '\\' && !escaped;
      spaced += c;
      if (!quoted && (c == ',' || c == ':')) spaced += ' ';
    }
    return spaced;
  }

  static void wrap(const Tree& tree, std::size_t indent, std::string& out) {
    constexpr std::size_t kColumns = 100;
    const std::string flat = line(tree);
    const bool nests = tree.is_structured() && !tree.empty(), top = indent == 0;
    if (!nests || (!top && flat.size() + indent <= kColumns)) {
      out += flat;
      return;
    }
    const std::string margin(indent + 2, ' ');
    out += tree.is_object() ? "{" : "[";
    bool first = true;
    for (const auto& [key, member] : tree.items()) {
      out += (first ? "\n" : ",\n") + margin;
      first = false;
      if (tree.is_object()) out += text(key, -1) + ": ";
      wrap(member, indent + 2, out);
    }
    out += "\n" + std::string(indent, ' ') + (tree.is_object() ? "}" : "]");
  }
};

std::string json_library_version() {
  return fmt::format("{}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR,
                     NLOHMANN_JSON_VERSION_PATCH);
}

std::string JsonWriter::dump(int indent) const { return Dumper::text(Dumper::tree(*this, ""), indent); }

std::string JsonWriter::dump_wrapped() const {
  std::string out;
  Dumper::wrap(Dumper::tree(*this, ""), 0, out);
  return out;
}

}  // namespace tandem::base
