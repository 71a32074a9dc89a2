// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tables for people and for spreadsheets.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "app/console/terminal.h"

namespace tandem::app {

struct Column {
  std::string head;
  bool right = false;  ///< aligned right (numbers)
  /// Above 0: left out if the table would be too wide with it, the smallest first. One order for all tables:
  /// 1 global batch, 2 goodput, 3 memory, 4 speed-up, 5 efficiency, 6 interval, 7 ratio to the first.
  int spare = 0;
};

/// Rows of text cells under named columns; every row has one cell per column.
/// For one thread at a time.
class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add(std::vector<std::string> row);
  bool empty() const { return rows_.empty(); }
  const std::vector<std::vector<std::string>>& rows() const { return rows_; }
  /// The least width: no line of text() is longer than this (0: no limit).
  bool fits(int columns) const;
  /// Aligned by display width, three blanks between columns, no trailing blanks. `heads` = false omits the
  /// header. If it is wider than `columns` characters (0: no limit), columns are parted by two blanks, then
  /// the last column is wrapped. If that leaves too little room, text columns at the end move below each row;
  /// then spare ones are left out, which a line below the table says; then long texts move below; if even
  /// that is too wide, each row becomes a list.
  std::string text(bool heads = true, int columns = 0) const;
  std::string markdown() const;
  /// RFC 4180: fields with commas, quotes or newlines are quoted.
  std::string csv() const;
  /// An array of objects, all values text, keyed by the column heads.
  std::string json() const;
  /// By format name: text (within `columns`), md, csv, json.
  std::string as(std::string_view format, int columns = 0) const;

 private:
  /// Which columns are side by side, up to which spare ones are left out, and how many blanks part them.
  struct Layout {
    std::vector<std::size_t> row;
    int without = 0;
    std::size_t gap = 3;
  };
  std::vector<std::size_t> widths(bool heads) const;
  static constexpr std::size_t kAnyWidth = SIZE_MAX;
  Layout all_but(std::size_t after, int without, std::size_t gap, std::size_t widest = kAnyWidth) const;
  bool dropped(std::size_t column, int without) const;
  std::string left_out(const Layout& layout, int columns) const;
  std::string grid(const std::vector<std::size_t>& widths, const Layout& layout, bool heads,
                   int columns) const;
  std::string below(const std::vector<std::string>& row, const Layout& layout, int columns) const;
  std::string list(int columns) const;
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace tandem::app
