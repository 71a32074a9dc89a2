// SPDX-License-Identifier: Apache-2.0
#include "app/console/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "base/text.h"

namespace tandem::app {

namespace {

constexpr int kFewest = 20;

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

/// Bytes of the first `characters` characters.
std::size_t bytes_of(std::string_view text, std::size_t characters) {
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    if (begins_character(text[at]) && characters-- == 0) break;
  }
  return at;
}

/// Indentation of the lines after the first: under the text after a label, else under the first word.
std::size_t continued_at(std::string_view line, std::size_t columns) {
  const std::size_t first = std::min(line.find_first_not_of(' '), line.size());
  const std::size_t gap = line.find("  ", first);
  if (gap != std::string_view::npos) {
    const std::size_t text = width(line.substr(0, std::min(line.find_first_not_of(' ', gap), line.size())));
    if (text < columns / 2) return text;
  }
  return first < columns / 2 ? first : 0;
}

void wrap_line(std::string_view line, std::size_t columns, std::string& out) {
  const std::string indent(continued_at(line, columns), ' ');
  std::size_t room = columns, from = indent.size();  // no break within the indentation or the label
  while (width(line) > room) {
    const std::size_t fits = bytes_of(line, room);
    std::size_t end = line.rfind(' ', fits);
    if (end == std::string_view::npos || end <= bytes_of(line, from)) {
      end = std::min(line.find(' ', fits), line.size());
      const std::size_t comma = line.rfind(',', fits - 1);
      if (comma != std::string_view::npos && comma > bytes_of(line, from)) end = comma + 1;
    }
    const std::string_view part = line.substr(0, end);
    out += part.substr(0, part.find_last_not_of(' ') + 1);
    line.remove_prefix(std::min(line.find_first_not_of(' ', end), line.size()));
    if (line.empty()) return;
    out += "\n" + indent;
    room = columns - indent.size();
    from = 0;
  }
  out += line;
}

}  // namespace

std::size_t width(std::string_view utf8) {
  return static_cast<std::size_t>(std::count_if(
      utf8.begin(), utf8.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

int columns_of(int descriptor) {
  if (const char* set = std::getenv("COLUMNS")) {
    int columns = 0;
    const char* end = set + std::strlen(set);
    if (std::from_chars(set, end, columns).ptr == end && columns >= kFewest) return columns;
  }
  winsize size{};
  if (ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 0;
  return std::max<int>(size.ws_col, kFewest);
}

std::string wrapped(std::string_view text, int columns) {
  if (columns <= 0) return std::string(text);
  std::string out;
  for (const std::string& line : split(text, '\n')) {
    wrap_line(line, static_cast<std::size_t>(columns), out);
    out += "\n";
  }
  out.pop_back();
  return out;
}

std::string hanging(std::string_view label, std::string_view text, int columns) {
  const std::string under = "\n" + std::string(width(label), ' ');
  const int room = columns <= 0 ? 0 : std::max(columns - static_cast<int>(width(label)), kFewest);
  std::string out(label);
  for (const char c : wrapped(text, room)) out += c == '\n' ? under : std::string(1, c);
  return out;
}

std::string cut_off(std::string_view line, int columns) {
  const auto most = static_cast<std::size_t>(columns);
  if (columns <= 0 || width(line) <= most) return std::string(line);
  return std::string(line.substr(0, bytes_of(line, most - 1))) + "…";
}

}  // namespace tandem::app
