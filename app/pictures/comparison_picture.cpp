// SPDX-License-Identifier: Apache-2.0
#include "app/pictures/comparison_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "app/pictures/gnuplot.h"

namespace tandem::app {

namespace {

constexpr std::size_t kMostRows = 24;  // more would overlap

struct Row {
  std::string name;  ///< of the model and the devices
  double ratio = 1, low = 1, high = 1;
  std::optional<double> devices, rest;  ///< with only that changed
};

/// Null if one side does not hold the model.
std::optional<Row> row_of(const Json& item) {
  const auto real = [](const Json& v) { return v.as_real(1e-9, 1e9); };
  const Json& ratio = item.at("samples_per_second_ratio");
  if (ratio.kind() == Json::Kind::null) return std::nullopt;
  const int64_t devices = item.at("devices").as_int(1);
  Row row;
  row.name = fmt::format("{} on {}", item.at("a").at("model").as_text(), devices);
  row.ratio = real(ratio);
  const Json& interval = item.at("samples_per_second_ratio_interval");
  row.low = real(interval.at("low"));
  row.high = real(interval.at("high"));
  const auto part = [&](const char* key) {
    const Json* value = item.find(key);
    return value && value->kind() != Json::Kind::null ? std::optional(real(*value)) : std::nullopt;
  };
  row.devices = part("only_devices_changed_ratio");
  row.rest = part("only_links_and_host_changed_ratio");
  return row;
}

}  // namespace

bool is_comparison(const Json& document) {
  return document.is_object() && document.text("schema", "") == "tandem-compare-1";
}

std::vector<std::string> draw_comparison(const Json& document, const std::string& base) {
  std::vector<Row> rows;
  for (const Json& item : document.at("rows").items()) {
    if (auto row = row_of(item)) rows.push_back(std::move(*row));
  }
  if (rows.empty()) document.fail("no row of the comparison fits on both sides: nothing to draw");
  if (rows.size() > kMostRows)
    document.fail(fmt::format("{} rows are too many for one picture; at most {}", rows.size(), kMostRows));
  double low = 1, high = 1, widest = 0;
  bool parts = false;
  std::vector<std::vector<std::string>> cells;
  for (const Row& r : rows) {
    for (const double v : {r.low, r.high, r.devices.value_or(1), r.rest.value_or(1)}) {
      low = std::min(low, v);
      high = std::max(high, v);
    }
    parts = parts || r.devices || r.rest;
    widest = std::max(widest, text_width(r.name, 13));
    const auto known = [](const std::optional<double>& v) { return v ? cell(*v) : "NaN"; };
    cells.push_back({std::to_string(cells.size() + 1), cell(r.ratio), cell(r.low), cell(r.high),
                     known(r.devices), known(r.rest), r.name, fmt::format("{:.2f}", r.ratio)});
  }
  const double margin = std::pow(high / low, 0.08) * 1.02;
  const std::string &a = document.at("a").as_text(), &b = document.at("b").as_text();
  Gnuplot plot("comparison");
  const std::size_t left_out = document.at("rows").items().size() - rows.size();
  plot.heading(fmt::format("{} against {}", b, a),
               left_out == 0 ? "right of 1 the first is faster"
                             : fmt::format("right of 1 the first is faster; {} that one of them does not "
                                           "hold {} left out",
                                           left_out, left_out == 1 ? "is" : "are"));
  plot.set("count", static_cast<double>(rows.size()));
  plot.set("low", low / margin);
  plot.set("high", high * margin);
  plot.set("log_axes", high / low > 4 ? 1 : 0);
  plot.set("parts", parts ? 1 : 0);
  plot.set("name_points", std::min(13.0, 13 * 0.3 * kPictureWidth / widest));
  plot.set("name_room", std::clamp(widest / kPictureWidth + 0.03, 0.12, 0.33));
  plot.data("rows", cells);
  return plot.draw(base);
}

}  // namespace tandem::app
