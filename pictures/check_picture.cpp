// SPDX-License-Identifier: Apache-2.0
#include "pictures/check_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "calibration/validate/check_result.h"
#include "pictures/gnuplot.h"

namespace tandem::pictures {

namespace {

constexpr std::size_t kMostSeries = 8;

struct Case {
  std::string model;
  double predicted = 0, executed = 0;
};

/// Cases of each metric with two values to compare, in the order of the file.
std::vector<std::pair<std::string, std::vector<Case>>> cases_of(const Json& document) {
  std::vector<std::pair<std::string, std::vector<Case>>> out;
  for (const Json& item : document.at("cases").items()) {
    const std::string& metric = item.at("metric").as_text();
    if (is_distance(metric)) continue;
    auto at = std::find_if(out.begin(), out.end(), [&](const auto& m) { return m.first == metric; });
    if (at == out.end()) at = out.insert(out.end(), {metric, {}});
    at->second.push_back({item.at("model").as_text(), item.at("predicted").as_real(0, 1e300),
                          item.at("executed").as_real(0, 1e300)});
  }
  return out;
}

/// Series of points by model, the models with the most cases first.
std::vector<std::pair<std::string, std::vector<Case>>> by_model(const std::vector<Case>& cases) {
  std::map<std::string, std::vector<Case>> models;
  for (const Case& c : cases) models[c.model].push_back(c);
  std::vector<std::pair<std::string, std::vector<Case>>> out(models.begin(), models.end());
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
  for (std::size_t i = kMostSeries; i < out.size(); ++i) {
    auto& last = out[kMostSeries - 1];
    last.first = "others";
    last.second.insert(last.second.end(), out[i].second.begin(), out[i].second.end());
  }
  if (out.size() > kMostSeries) out.resize(kMostSeries);
  return out;
}

std::string heading(const std::string& metric, const std::vector<Case>& cases) {
  double sum = 0, most = 0;
  int counted = 0;
  for (const Case& c : cases) {
    if (c.executed <= 0) continue;
    const double error = std::abs(c.predicted / c.executed - 1);
    sum += error;
    most = std::max(most, error);
    ++counted;
  }
  const std::string errors =
      counted == 0 ? ""
                   : fmt::format(": mean error {:.1f} %, largest {:.1f} %", 100 * sum / counted, 100 * most);
  return fmt::format("Predicted against executed {}, {} case{}{}", metric, cases.size(),
                     cases.size() == 1 ? "" : "s", errors);
}

}  // namespace

bool is_check(const Json& document) {
  return document.is_object() && document.text("schema", "") == "tandem-check-1";
}

Pictures draw_check(const Json& document, const std::string& base) {
  Pictures pictures;
  for (const auto& [metric, cases] : cases_of(document)) {
    double low = INFINITY, high = 0;
    std::vector<std::vector<std::string>> rows;
    Gnuplot plot("check");
    const auto series = by_model(cases);
    for (std::size_t i = 0; i < series.size(); ++i) {
      if (i > 0) rows.insert(rows.end(), 2, {});
      for (const Case& c : series[i].second) {
        rows.push_back({cell(c.executed), cell(c.predicted)});
        low = std::min({low, c.executed, c.predicted});
        high = std::max({high, c.executed, c.predicted});
      }
      plot.set(fmt::format("title_{}", i + 1), series[i].first);
    }
    const bool logarithmic = low > 0 && high > 20 * low;
    if (high <= 0) high = 1;
    std::string words = metric;
    std::replace(words.begin(), words.end(), '_', ' ');
    plot.set("n", static_cast<double>(series.size()));
    plot.heading(heading(words, cases));
    plot.set("unit", words);
    plot.set("log_axes", logarithmic ? 1 : 0);
    plot.set("low", logarithmic ? low / 1.5 : 0);
    plot.set("high", high * (logarithmic ? 1.5 : 1.08));
    plot.data("cases", rows);
    std::string name = metric;  // of a file: other characters of the metric's name are left out
    std::erase_if(name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)) && c != '_'; });
    pictures.push_back({fmt::format("{}-{}", base, name), std::move(plot)});
  }
  return pictures;
}

}  // namespace tandem::pictures
