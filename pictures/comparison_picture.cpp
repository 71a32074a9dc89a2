// SPDX-License-Identifier: Apache-2.0
#include "pictures/comparison_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "pictures/gnuplot.h"

namespace tandem::pictures {

namespace {

constexpr std::size_t kMostRows = 24;  // more would overlap

struct Row {
  std::string name;  ///< of the model and the devices
  std::string label;
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
  row.label = fmt::format("{:.2f}", row.ratio);
  const auto part = [&](const char* key) {
    const Json* value = item.find(key);
    return value && value->kind() != Json::Kind::null ? std::optional(real(*value)) : std::nullopt;
  };
  row.devices = part("only_devices_changed_ratio");
  row.rest = part("only_links_and_host_changed_ratio");
  return row;
}

/// Of one of several machines, relative to the first.
std::optional<Row> row_of_several(const Json& item, const Json& document) {
  const Json& ratio = item.at("over_a");
  if (ratio.kind() == Json::Kind::null) return std::nullopt;
  const auto& sides = document.at("sides").items();
  const std::string& side = item.at("side").as_text();
  const auto index = static_cast<std::size_t>(side.empty() ? 255 : side[0] - 'A');
  if (index >= sides.size()) item.at("side").fail("no side of the comparison");
  const auto& rows = document.at("rows").items();
  const std::string& model = item.at("model").as_text();
  const bool models = std::any_of(rows.begin(), rows.end(),
                                  [&](const Json& other) { return other.at("model").as_text() != model; });
  Row row;
  row.name = fmt::format("{}{} {} on {}", models ? model + ": " : "", side, sides[index].as_text(),
                         item.at("devices").as_int(1));
  row.ratio = ratio.as_real(1e-9, 1e9);
  row.low = item.at("over_a_interval").at("low").as_real(1e-9, 1e9);
  row.high = item.at("over_a_interval").at("high").as_real(1e-9, 1e9);
  row.label = fmt::format("{:.2f}: {} samples/s", row.ratio,
                          grouped(item.at("samples_per_second").as_real(0, 1e300)));
  return row;
}

/// "resnet50: 4090-pcie-8x, 5090-2x and a100-pcie-4x".
std::string heading_of_several(const Json& document) {
  const auto& sides = document.at("sides").items();
  std::string out;
  for (std::size_t i = 0; i < sides.size(); ++i)
    out += (i == 0 ? "" : i + 1 == sides.size() ? " and " : ", ") + sides[i].as_text();
  const auto& rows = document.at("rows").items();
  const std::string& model = rows.at(0).at("model").as_text();
  const bool models = std::any_of(rows.begin(), rows.end(),
                                  [&](const Json& other) { return other.at("model").as_text() != model; });
  return models ? out : model + ": " + out;
}

bool of_several(const Json& document) { return document.text("schema", "") == "tandem-compare-several-1"; }

}  // namespace

bool is_comparison(const Json& document) {
  return document.is_object() && (document.text("schema", "") == "tandem-compare-1" || of_several(document));
}

Pictures draw_comparison(const Json& document, const std::string& base) {
  std::vector<Row> rows;
  const bool several = of_several(document);
  for (const Json& item : document.at("rows").items()) {
    if (auto row = several ? row_of_several(item, document) : row_of(item)) rows.push_back(std::move(*row));
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
                     known(r.devices), known(r.rest), r.name, r.label});
  }
  const double margin = std::pow(high / low, 0.08) * 1.02;
  Gnuplot plot("comparison");
  const std::size_t left_out = document.at("rows").items().size() - rows.size();
  const std::string heading =
      several ? heading_of_several(document)
              : fmt::format("{} against {}", document.at("b").as_text(), document.at("a").as_text());
  plot.heading(heading,
               fmt::format("right of 1 {} is faster{}", several ? "a machine" : "the first",
                           left_out == 0 ? ""
                                         : fmt::format("; {} that one of them does not hold {} left out",
                                                       left_out, left_out == 1 ? "is" : "are")));
  plot.set("axis", several ? "samples per second over those of A" : "ratio of samples per second");
  plot.set("count", static_cast<double>(rows.size()));
  plot.set("low", low / margin);
  plot.set("high", high * margin);
  plot.set("log_axes", high / low > 4 ? 1 : 0);
  plot.set("parts", parts ? 1 : 0);
  plot.set("name_points", std::min(13.0, 13 * 0.3 * kPictureWidth / widest));
  plot.set("name_room", std::clamp(widest / kPictureWidth + 0.03, 0.12, 0.33));
  plot.data("rows", cells);
  return {{base, std::move(plot)}};
}

}  // namespace tandem::pictures
