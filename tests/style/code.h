// SPDX-License-Identifier: Apache-2.0
#pragma once
// C++ as the tests of style read it: braces and words, nothing more.
#include <algorithm>
#include <cctype>
#include <string>

#include "tests/style/sources.h"

namespace tandem::tests {

/// Where the literal or comment that begins at `at` ends; `at` where none begins there.
inline std::size_t end_of_text(const std::string& s, std::size_t at) {
  const auto find = [&](const std::string& what, std::size_t from) {
    const std::size_t found = s.find(what, from);
    return found == std::string::npos ? s.size() : found + what.size();
  };
  if (s.compare(at, 2, "//") == 0) return find("\n", at) - 1;
  if (s.compare(at, 2, "/*") == 0) return find("*/", at + 2);
  if (s.compare(at, 2, "R\"") == 0) {
    const std::size_t open = s.find('(', at);
    return find(")" + s.substr(at + 2, open - at - 2) + "\"", open);
  }
  const bool separates = at > 0 && std::isxdigit(static_cast<unsigned char>(s[at - 1])) != 0;  // 10'000
  if (s[at] != '"' && (s[at] != '\'' || separates)) return at;
  std::size_t end = at + 1;
  while (end < s.size() && s[end] != s[at]) end += s[end] == '\\' ? 2 : 1;
  return end + 1;
}

/// Without comments, literals and lines of the preprocessor; lines keep their numbers.
inline std::string code_of(const Source& source) {
  std::string all, out;
  for (std::string line : source.lines) {
    const std::size_t first = line.find_first_not_of(" \t");
    if (first != std::string::npos && line[first] == '#') line.clear();
    all += line + "\n";
  }
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t end = end_of_text(all, at);
    if (end == at) out += all[at++];
    at = std::max(at, end);
  }
  return out;
}

}  // namespace tandem::tests
