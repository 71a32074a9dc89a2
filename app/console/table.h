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
  bool spare = false;  ///< moves below each row if the table would be too wide with it
};

/// Rows of text cells under named columns; every row has one cell per column.
/// For one thread at a time.
class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add(std::vector<std::string> row);
  bool empty() const { return rows_.empty(); }
  /// The least width: no line of text() is longer than this (0: no limit).
  bool fits(int columns) const;
  /// Aligned by display width, three blanks between columns, no trailing blanks. `heads` = false omits the
  /// header. If it is wider than `columns` characters (0: no limit), columns are parted by two blanks, then
  /// the last column is wrapped. If that leaves too little room, text columns at the end move below each row,
  /// then spare ones; if even that is too wide, each row becomes a list.
  std::string text(bool heads = true, int columns = 0) const;
  std::string markdown() const;
  /// RFC 4180: fields with commas, quotes or newlines are quoted.
  std::string csv() const;
  /// An array of objects, all values text, keyed by the column heads.
  std::string json() const;
  /// By format name: text (within `columns`), md, csv, json.
  std::string as(std::string_view format, int columns = 0) const;

 private:
  std::vector<std::size_t> widths(bool heads) const;
  /// Which columns are side by side, and how many blanks part them.
  struct Layout {
    std::vector<std::size_t> row;
    std::size_t gap = 3;
  };
  static constexpr std::size_t kAnyWidth = SIZE_MAX;
  Layout all_but(std::size_t after, bool spare, std::size_t gap, std::size_t widest = kAnyWidth) const;
  std::string grid(const std::vector<std::size_t>& widths, const Layout& layout, bool heads,
                   int columns) const;
  std::string below(const std::vector<std::string>& row, const Layout& layout, int columns) const;
  std::string list(int columns) const;
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace tandem::app
