// SPDX-License-Identifier: Apache-2.0
#include "topologies/ranges.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <string_view>

namespace tandem::topologies {

namespace {

bool read_index(std::string_view text, std::uint64_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end == text.data() + text.size();
}

bool plain(std::string_view text) {
  for (const char c : text) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!letter && c != '-' && c != '_') return false;
  }
  return true;
}

}  // namespace

std::vector<std::string> expand_range(const std::string& pattern, const Place& place) {
  const auto fail = [&](const std::string& why) {
    throw InputError(
        place,
        fmt::format("\"{}\" does not name vertices: {}. Valid: \"gpu3\", \"gpu[0-7]\", \"gpu[0,3,5-6]\"",
                    printable(pattern), why));
  };
  const std::string_view text = pattern;
  const auto open = text.find('[');
  const std::string_view stem = text.substr(0, open);
  if (stem.empty() || !plain(stem)) fail("it must begin with a name of letters, digits, '-' and '_'");
  if (open == std::string_view::npos) return {pattern};
  if (text.back() != ']') fail("nothing may follow the closing bracket, which must be there");
  std::string_view body = text.substr(open + 1, text.size() - open - 2);
  std::vector<std::string> out;
  while (true) {
    const auto comma = body.find(',');
    const std::string_view item = body.substr(0, comma);
    const auto dash = item.find('-');
    std::uint64_t first = 0, last = 0;
    if (!read_index(item.substr(0, dash), first)) fail("the brackets hold whole numbers and ranges");
    last = first;
    if (dash != std::string_view::npos && !read_index(item.substr(dash + 1), last)) {
      fail("the brackets hold whole numbers and ranges");
    }
    if (last < first) fail("the range runs backwards");
    if (last - first >= kMaxVertices - out.size()) fail(fmt::format("more than {} of them", kMaxVertices));
    for (std::uint64_t i = 0; i <= last - first; ++i) out.push_back(fmt::format("{}{}", stem, first + i));
    if (comma == std::string_view::npos) return out;
    body.remove_prefix(comma + 1);
  }
}

}  // namespace tandem::topologies
