// SPDX-License-Identifier: Apache-2.0
#include "answers/option.h"

#include <algorithm>

namespace tandem::answers {

std::string_view Option::names() const {
  if (value.find("NAME") == std::string_view::npos) return {};
  if (name == "swap" || name == "device") return "devices";
  for (const std::string_view kind :
       {"models", "systems", "schemes", "optimizers", "recipes", "profiles", "backends"}) {
    if (name == kind || name == kind.substr(0, kind.size() - 1)) return kind;
  }
  return {};
}

std::vector<std::string_view> Option::choices() const {
  std::vector<std::string_view> out;
  const auto in_a_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
  };
  for (std::string_view rest = value.substr(0, value.find('[')); !rest.empty();) {
    const std::size_t end = std::min(rest.find('|'), rest.size());
    const std::string_view word = rest.substr(0, end);
    if (word.find_first_not_of('.') != word.npos && std::all_of(word.begin(), word.end(), in_a_word))
      out.push_back(word);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return out;
}

}  // namespace tandem::answers
