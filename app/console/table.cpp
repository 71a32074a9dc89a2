// SPDX-License-Identifier: Apache-2.0
#include "app/console/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include "base/json_writer.h"
#include "base/text.h"

#include "app/console/terminal.h"
#include "base/error.h"

namespace tandem::app {

namespace {

constexpr const char* kGap = "   ";
constexpr std::size_t kGaps[] = {3, 2};
constexpr int kLeastRoom = 24;  ///< for a column whose words are broken into lines

/// Characters of a line of these columns.
int total(const std::vector<std::size_t>& widths, const std::vector<std::size_t>& row, std::size_t gap) {
  std::size_t out = row.empty() ? 0 : (row.size() - 1) * gap;
  for (const std::size_t c : row) out += widths[c];
  return static_cast<int>(out);
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

bool Table::dropped(std::size_t column, int without) const {
  return columns_[column].spare > 0 && columns_[column].spare <= without;
}

/// The columns before `after` whose texts are at most that wide, without spare ones up to `without`.
Table::Layout Table::all_but(std::size_t after, int without, std::size_t gap, std::size_t widest) const {
  Layout out{{}, without, gap};
  const std::vector<std::size_t> wide = widths(false);
  for (std::size_t c = 0; c < after; ++c) {
    if (!dropped(c, without) && (columns_[c].right || wide[c] <= widest)) out.row.push_back(c);
  }
  return out;
}

/// What to read below a table without some columns; "" below a whole one.
std::string Table::left_out(const Layout& layout, int columns) const {
  std::string names;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    if (dropped(c, layout.without)) names += (names.empty() ? "" : ", ") + columns_[c].head;
  }
  return names.empty() ? "" : wrapped(fmt::format("Left out: {} (--wide shows all).", names), columns) + "\n";
}

/// Parts of a row that are not in the layout: numbers on one line, texts on a line each.
std::string Table::below(const std::vector<std::string>& row, const Layout& layout, int columns) const {
  std::string numbers, texts;
  for (std::size_t c = 0; c < row.size(); ++c) {
    const bool beside = std::find(layout.row.begin(), layout.row.end(), c) != layout.row.end();
    if (row[c].empty() || beside || dropped(c, layout.without)) continue;
    if (columns_[c].right) {
      const std::string number = fmt::format("{} {}", columns_[c].head, row[c]);
      const std::size_t line = width(numbers) - (numbers.rfind('\n') + 1);
      const bool fits = columns <= 0 || static_cast<int>(line + 3 + width(number)) <= columns;
      numbers += numbers.empty() ? "    " : fits ? kGap : "\n    ";
      numbers += number;
      continue;
    }
    const bool colon = row[c].find(": ") == std::string::npos;  // "bound by compute: convolutions 31 %"
    texts += hanging(fmt::format("    {}{} ", columns_[c].head, colon ? ":" : ""), row[c], columns) + "\n";
  }
  return (numbers.empty() ? "" : numbers + "\n") + texts;
}

/// The columns of `layout` side by side, the others below each row. The last is broken to `columns`.
std::string Table::grid(const std::vector<std::size_t>& widths, const Layout& layout, bool heads,
                        int columns) const {
  std::string out;
  const std::string gap(layout.gap, ' ');
  const auto line = [&](const auto& cell) {
    std::string text;
    const std::size_t last = layout.row.back();
    for (const std::size_t c : layout.row) {
      if (c == last) break;
      const std::string pad(widths[c] - width(cell(c)), ' ');
      text += columns_[c].right ? pad + cell(c) : cell(c) + pad;
      text += gap;
    }
    const std::string pad(columns_[last].right ? widths[last] - width(cell(last)) : 0, ' ');
    text = hanging(text, pad + cell(last), columns);
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + "\n";
  };
  if (heads) line([&](std::size_t c) { return columns_[c].head; });
  for (const auto& row : rows_) {
    line([&](std::size_t c) { return row[c]; });
    out += below(row, layout, columns);
  }
  return out + left_out(layout, columns);
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
  return columns <= 0 || total(widths(true), all_but(columns_.size(), 0, 2).row, 2) <= columns;
}

std::string Table::text(bool heads, int columns) const {
  const std::vector<std::size_t> wide = widths(heads);
  const std::size_t all = columns_.size();
  std::set<int> spare = {0};
  for (const Column& c : columns_) spare.insert(c.spare);
  const auto over = [&](const Layout& layout) { return total(wide, layout.row, layout.gap) - columns; };
  if (columns <= 0) return grid(wide, all_but(all, 0, kGaps[0]), heads, 0);
  for (const int without : spare) {
    for (const std::size_t gap : kGaps) {
      const Layout whole = all_but(all, without, gap);
      if (over(whole) <= 0) return grid(wide, whole, heads, columns);
    }
    for (const std::size_t gap : kGaps) {
      const Layout whole = all_but(all, without, gap);
      const int room = static_cast<int>(wide.back()) - over(whole);
      if (!columns_.back().right && room >= kLeastRoom) return grid(wide, whole, heads, columns);
    }
    for (std::size_t shown = all; heads && shown > 1; --shown) {  // without texts at the end
      for (const std::size_t gap : kGaps) {
        const Layout layout = all_but(shown, without, gap);
        if (!layout.row.empty() && over(layout) <= 0) return grid(wide, layout, heads, columns);
      }
      if (columns_[shown - 1].right) break;
    }
  }
  for (const std::size_t gap : kGaps) {
    const Layout numbers = all_but(all, *spare.rbegin(), gap, kLeastRoom);
    if (heads && !numbers.row.empty() && over(numbers) <= 0) return grid(wide, numbers, heads, columns);
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
  std::string out;
  for (std::size_t c = 0; c < columns_.size(); ++c) out += (c > 0 ? "," : "") + csv_cell(columns_[c].head);
  out += "\n";
  for (const auto& row : rows_) {
    for (std::size_t c = 0; c < row.size(); ++c) out += (c > 0 ? "," : "") + csv_cell(row[c]);
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

}  // namespace tandem::app
