// SPDX-License-Identifier: Apache-2.0
#include "app/console/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace tandem::app {

void Table::add(std::vector<std::string> row) {
  TANDEM_CHECK(row.size() == columns_.size());
  rows_.push_back(std::move(row));
}

std::string Table::text(bool heads) const {
  std::vector<std::size_t> widths(columns_.size(), 0);
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    if (heads) widths[c] = width(columns_[c].head);
    for (const auto& row : rows_) widths[c] = std::max(widths[c], width(row[c]));
  }
  std::string out;
  const auto line = [&](const auto& cell) {
    std::string text;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const std::string pad(widths[c] - std::min(widths[c], width(cell(c))), ' ');
      if (c > 0) text += "   ";
      text += columns_[c].right ? pad + cell(c) : cell(c) + pad;
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + "\n";
  };
  if (heads) line([&](std::size_t c) { return columns_[c].head; });
  for (const auto& row : rows_) line([&](std::size_t c) { return row[c]; });
  return out;
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
  auto out = nlohmann::ordered_json::array();
  for (const auto& row : rows_) {
    nlohmann::ordered_json object;
    for (std::size_t c = 0; c < row.size(); ++c) object[columns_[c].head] = row[c];
    out.push_back(std::move(object));
  }
  return out.dump(1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string Table::as(std::string_view format) const {
  if (format == "json") return json();
  if (format == "csv") return csv();
  if (format == "md") return markdown();
  return text();
}

std::size_t width(std::string_view utf8) {
  return static_cast<std::size_t>(std::count_if(
      utf8.begin(), utf8.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
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

}  // namespace tandem::app
