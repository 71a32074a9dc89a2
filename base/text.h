// SPDX-License-Identifier: Apache-2.0
#pragma once
// Small helpers on text that several floors read.
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

#include "base/rooms.h"

namespace tandem::base {

/// The parts between the separators: one more than there are separators, empty ones included.
inline std::vector<std::string> split(std::string_view text, char by) {
  std::vector<std::string> out;
  while (true) {
    const auto at = text.find(by);
    out.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos) return out;
    text.remove_prefix(at + 1);
  }
}

/// Runs of letters and digits, in lower case: "NVIDIA H200-SXM" is nvidia, h200, sxm.
inline std::vector<std::string> lower_words(std::string_view text) {
  std::vector<std::string> out(1);
  for (const unsigned char c : text) {
    if (std::isalnum(c) != 0)
      out.back() += static_cast<char>(std::tolower(c));
    else if (!out.back().empty())
      out.emplace_back();
  }
  if (out.back().empty()) out.pop_back();
  return out;
}

/// One cell of CSV (RFC 4180): quoted where it must be.
inline std::string csv_cell(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + '"';
}

/// Without a byte order mark, and with plain blanks for the no-break spaces (U+00A0, U+2007, U+202F in UTF-8)
/// that web pages and mails put into pasted tables. No line gets longer.
inline std::string with_plain_blanks(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  while (!text.empty()) {
    std::size_t wide = 0;
    if (text.starts_with("\xC2\xA0")) wide = 2;
    if (text.starts_with("\xE2\x80\x87") || text.starts_with("\xE2\x80\xAF")) wide = 3;
    out += wide > 0 ? ' ' : text.front();
    text.remove_prefix(wide > 0 ? wide : 1);
  }
  return out;
}

}  // namespace tandem::base
