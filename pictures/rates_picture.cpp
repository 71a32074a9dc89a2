// SPDX-License-Identifier: Apache-2.0
#include "pictures/rates_picture.h"

#include <fmt/format.h>

#include <algorithm>

#include "calibration/validate/validation_statistics.h"
#include "pictures/gnuplot.h"

namespace tandem::pictures {

namespace {

/// A colour each (plots/style.gp has eight); the last is for all others.
constexpr std::string_view kTitles[] = {"Kepler, Maxwell", "Pascal", "Volta",  "Turing",
                                        "Ampere",          "Ada",    "Hopper", "others"};

std::size_t generation_colour(const std::string& generation) {
  if (generation == "kepler" || generation == "maxwell") return 0;
  for (std::size_t i = 1; i + 1 < std::size(kTitles); ++i) {
    const std::string_view title = kTitles[i];
    if (generation.substr(1) == title.substr(1)) return i;  // but for the capital
  }
  return std::size(kTitles) - 1;
}

}  // namespace

Pictures draw_rates(const std::vector<ValidationRow>& rows, const std::string& base) {
  std::vector<std::vector<std::string>> points;
  double low = 1e300, high = 0;
  for (const ValidationRow& r : rows) {
    if (!has_rate(r)) continue;
    points.push_back({cell(r.published), cell(r.rate.samples_per_second),
                      std::to_string(generation_colour(r.generation) + 1), unseen_rate(r) ? "1" : "0"});
    low = std::min({low, r.published, r.rate.samples_per_second});
    high = std::max({high, r.published, r.rate.samples_per_second});
  }
  if (points.empty()) return {};
  Gnuplot plot("rates");
  plot.heading(fmt::format("{} published training rates, predicted without anchor", points.size()),
               "filled: held out");
  plot.set("n", static_cast<double>(std::size(kTitles)));
  for (std::size_t i = 0; i < std::size(kTitles); ++i) plot.set(fmt::format("title_{}", i + 1), kTitles[i]);
  plot.set("low", low / 1.5);
  plot.set("high", high * 1.5);
  plot.data("rates", points);
  return {{base, std::move(plot)}};
}

}  // namespace tandem::pictures
