// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tables for people and for spreadsheets.
#include <string>
#include <string_view>
#include <vector>

#include "base/rooms.h"

namespace tandem::app {

struct Column {
  std::string head;
  bool right = false;  ///< aligned right (numbers)
};

/// Rows of text cells under named columns; every row has one cell per column.
class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add(std::vector<std::string> row);
  bool empty() const { return rows_.empty(); }
  /// Aligned by display width, two or three blanks between columns, no trailing blanks. `heads` = false
  /// leaves the first line out.
  std::string text(bool heads = true) const;
  std::string markdown() const;
  /// RFC 4180: fields with commas, quotes or newlines are quoted.
  std::string csv() const;
  /// An array of objects, all values text, keyed by the column heads.
  std::string json() const;
  /// By name: text, md, csv, json.
  std::string as(std::string_view format) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// Number of character cells of UTF-8 text (one per code point).
std::size_t width(std::string_view utf8);
/// 1234567 -> "1,234,567"; from 1000 up without decimals, below with up to three significant digits.
std::string grouped(double value);

}  // namespace tandem::app
