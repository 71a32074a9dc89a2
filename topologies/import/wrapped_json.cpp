// SPDX-License-Identifier: Apache-2.0
#include "topologies/import/wrapped_json.h"

#include <nlohmann/json.hpp>

namespace tandem::topologies {

namespace {

using nlohmann::ordered_json;

/// Objects and lists that fit into a line stay on one.
void print(const ordered_json& value, int indent, std::string& out) {
  const auto line = [&] {
    std::string flat = value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
    std::string spaced;
    bool quoted = false, escaped = false;
    for (const char c : flat) {
      if (c == '"' && !escaped) quoted = !quoted;
      escaped = c == '\\' && !escaped;
      spaced += c;
      if (!quoted && (c == ',' || c == ':')) spaced += ' ';
    }
    return spaced;
  }();
  const bool nests = value.is_structured() && !value.empty();
  const bool top = indent == 0;
  if (!nests || (!top && line.size() + static_cast<std::size_t>(indent) <= 100)) {
    out += line;
    return;
  }
  const std::string margin(static_cast<std::size_t>(indent) + 2, ' ');
  out += value.is_object() ? "{" : "[";
  bool first = true;
  for (const auto& [key, member] : value.items()) {
    out += (first ? "\n" : ",\n") + margin;
    first = false;
    if (value.is_object()) out += ordered_json(key).dump() + ": ";
    print(member, indent + 2, out);
  }
  out += "\n" + std::string(static_cast<std::size_t>(indent), ' ') + (value.is_object() ? "}" : "]");
}

}  // namespace

std::string wrapped_json(const ordered_json& value) {
  std::string out;
  print(value, 0, out);
  return out;
}

}  // namespace tandem::topologies
