// SPDX-License-Identifier: Apache-2.0
#include "app/console/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include "base/json_writer.h"

#include "app/console/terminal.h"
#include "base/error.h"

namespace tandem::app {

namespace {

constexpr const char* kGap = "   ";
constexpr int kLeastRoom = 24;  ///< for a column whose words are broken into lines

/// Characters of a line of the first `shown` columns.
int total(const std::vector<std::size_t>& widths, std::size_t shown) {
  const auto end = widths.begin() + static_cast<std::ptrdiff_t>(shown);
  return static_cast<int>(std::accumulate(widths.begin(), end, (shown - 1) * std::strlen(kGap)));
}

}  // namespace

void Table::add(std::vector<std::string> row) {
  TANDEM_CHECK(row.size() == columns_.size());
  rows_.push_back(std::move(row));
}

std::vector<std::size_t> Table::widths(bool heads) const {
  std::vector<std::size_t> out(columns_.size(), 0);
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    if (heads) out[c] = width(columns_[c].head);
    for (const auto& row : rows_) out[c] = std::max(out[c], width(row[c]));
  }
  return out;
}

/// The first `shown` columns side by side, the others below each row. The last is broken to `columns`.
std::string Table::grid(const std::vector<std::size_t>& widths, std::size_t shown, bool heads,
                        int columns) const {
  std::string out;
  const auto line = [&](const auto& cell) {
    std::string text;
    for (std::size_t c = 0; c + 1 < shown; ++c) {
      const std::string pad(widths[c] - width(cell(c)), ' ');
      text += (columns_[c].right ? pad + cell(c) : cell(c) + pad) + kGap;
    }
    const std::size_t last = shown - 1;
    const std::string pad(columns_[last].right ? widths[last] - width(cell(last)) : 0, ' ');
    text = hanging(text, pad + cell(last), columns);
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + "\n";
  };
  if (heads) line([&](std::size_t c) { return columns_[c].head; });
  for (const auto& row : rows_) {
    line([&](std::size_t c) { return row[c]; });
    for (std::size_t c = shown; c < row.size(); ++c)
      if (!row[c].empty()) out += hanging(fmt::format("    {}: ", columns_[c].head), row[c], columns) + "\n";
  }
  return out;
}

/// "head   value" lines, a block for each row.
std::string Table::list(int columns) const {
  std::size_t widest = 0;
  for (const Column& c : columns_) widest = std::max(widest, width(c.head));
  std::string out;
  for (const auto& row : rows_) {
    if (!out.empty()) out += "\n";
    for (std::size_t c = 0; c < row.size(); ++c) {
      if (row[c].empty()) continue;
      const std::string pad(widest - width(columns_[c].head), ' ');
      out += hanging(columns_[c].head + pad + kGap, row[c], columns) + "\n";
    }
  }
  return out;
}

bool Table::fits(int columns) const {
  return columns <= 0 || total(widths(true), columns_.size()) <= columns;
}

std::string Table::text(bool heads, int columns) const {
  const std::vector<std::size_t> wide = widths(heads);
  const std::size_t all = columns_.size();
  if (columns <= 0 || total(wide, all) <= columns) return grid(wide, all, heads, 0);
  const int room = columns - (total(wide, all) - static_cast<int>(wide.back()));
  if (!columns_.back().right && room >= kLeastRoom) return grid(wide, all, heads, columns);
  for (std::size_t shown = all - 1; heads && shown > 0 && !columns_[shown].right; --shown) {
    if (total(wide, shown) <= columns) return grid(wide, shown, heads, columns);
  }
  return list(columns);
}

std::string Table::markdown() const {
  std::string out = "|";
  for (const Column& c : columns_) out += fmt::format(" {} |", c.head);
  out += "\n|";
  for (const Column& c : columns_) out += c.right ? " ---: |" : " --- |";
  out += "\n";
  for (const auto& row : rows_) {
    out += "|";
    for (std::string cell : row) {
      for (std::size_t at = 0; (at = cell.find('|', at)) != std::string::npos; at += 2) cell.insert(at, "\\");
      out += fmt::format(" {} |", cell);
    }
    out += "\n";
  }
  return out;
}

std::string Table::csv() const {
  const auto field = [](const std::string& text) {
    if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
    std::string quoted = "\"";
    for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
    return quoted + "\"";
  };
  std::string out;
  for (std::size_t c = 0; c < columns_.size(); ++c) out += (c > 0 ? "," : "") + field(columns_[c].head);
  out += "\n";
  for (const auto& row : rows_) {
    for (std::size_t c = 0; c < row.size(); ++c) out += (c > 0 ? "," : "") + field(row[c]);
    out += "\n";
  }
  return out;
}

std::string Table::json() const {
  auto out = JsonWriter::array();
  for (const auto& row : rows_) {
    JsonWriter object;
    for (std::size_t c = 0; c < row.size(); ++c) object[columns_[c].head] = row[c];
    out.push_back(std::move(object));
  }
  return out.dump(2);
}

std::string Table::as(std::string_view format, int columns) const {
  if (format == "json") return json();
  if (format == "csv") return csv();
  if (format == "md") return markdown();
  return text(true, columns);
}

std::string grouped(double value) {
  const double size = std::abs(value);
  std::string text = fmt::format("{:.{}f}", value, size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3);
  const std::size_t stop = text[0] == '-' ? 1 : 0;
  for (std::size_t at = std::min(text.find('.'), text.size()); at > stop + 3;) {
    at -= 3;
    text.insert(at, ",");
  }
  return text;
}

std::string whole(int64_t count) {
  return count < 1000 ? std::to_string(count) : grouped(static_cast<double>(count));
}

}  // namespace tandem::app
