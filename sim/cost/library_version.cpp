// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/library_version.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace tandem::sim {

std::vector<int> version_of(std::string_view text, const Place& place) {
  std::vector<int> out;
  while (!text.empty()) {
    int part = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), part);
    if (error != std::errc() || part < 0) {
      throw InputError(place, fmt::format("\"{}\" is no version such as 2.18", printable(text)));
    }
    out.push_back(part);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (!text.empty() && text.front() == '.') text.remove_prefix(1);
  }
  return out;
}

int short_version(std::vector<int> version) {
  version.resize(2);
  return std::min(version[0], 99) * 100 + std::min(version[1], 99);
}

int library_version(std::string_view text, const Place& place) {
  return short_version(version_of(text, place));
}

}  // namespace tandem::sim
