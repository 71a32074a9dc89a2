#include "app/nccl_log.h"

#include <fmt/format.h>

#include <charconv>
#include <sstream>

#include "base/error.h"

namespace tandem {

namespace {

template <typename T>
bool read(const std::string& text, T& value) {
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  return result.ec == std::errc{} && result.ptr == end;
}

}  // namespace

std::vector<NcclRow> read_nccl_log(std::string_view text, const std::string& file) {
  std::vector<NcclRow> rows;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::vector<std::string> cells;
    for (std::string word; words >> word;) cells.push_back(word);
    constexpr std::size_t kTail = 8, kLeastHead = 3;  // size, count, type stand before the two groups
    if (cells.size() < kTail + kLeastHead) continue;
    NcclRow row;
    double microseconds = 0, gigabytes = 0;
    const std::size_t at = cells.size() - kTail;
    if (!read(cells[0], row.bytes) || !read(cells[at], microseconds) || !read(cells[at + 2], gigabytes))
      continue;
    if (row.bytes < 0 || !(microseconds > 0 && microseconds < 1e12) || !(gigabytes >= 0 && gigabytes < 1e9))
      continue;
    row.seconds = microseconds * 1e-6;
    row.busbw = gigabytes * 1e9;
    rows.push_back(row);
  }
  if (rows.empty()) throw InputError(fmt::format("{}: no row of an nccl-tests log in it", printable(file)));
  return rows;
}

}  // namespace tandem
