// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the readers of logs share: words, numbers and how a text begins. Any thread may call all of it.
#include <charconv>
#include <cmath>
#include <string_view>
#include <type_traits>
#include <vector>

namespace tandem::calibration {

/// Of a text of unknown kind: so much is looked at to recognise it.
constexpr std::size_t kRecognised = 1 << 16;

using Words = std::vector<std::string_view>;  ///< parts of a line that somebody else owns

/// What stands between blanks.
inline Words words_of(std::string_view line) {
  constexpr std::string_view kBlanks = " \t\r";
  Words out;
  for (std::size_t at = line.find_first_not_of(kBlanks); at != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(kBlanks, at), line.size());
    out.push_back(line.substr(at, end - at));
    at = line.find_first_not_of(kBlanks, end);
  }
  return out;
}

/// Whether all of `text` is a finite number, then in `value`.
template <typename T>
bool read_number(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if constexpr (std::is_floating_point_v<T>) {
    if (!std::isfinite(value)) return false;
  }
  return error == std::errc{} && end == text.data() + text.size();
}

/// Whether a text begins as a JSON object does.
inline bool begins_as_json(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{';
}

}  // namespace tandem::calibration
