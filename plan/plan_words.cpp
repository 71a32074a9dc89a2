// SPDX-License-Identifier: Apache-2.0
#include "plan/plan_words.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "base/units.h"

namespace tandem::plan {

namespace {

/// "1.25 million", of at least a million.
std::string millions(double n) {
  if (n >= 1e12) return n >= 1e18 ? "over a million trillion" : fmt::format("{:.4g} trillion", n / 1e12);
  return n >= 1e9 ? fmt::format("{:.4g} billion", n / 1e9) : fmt::format("{:.4g} million", n / 1e6);
}

/// Three digits, or as many as there are before the point.
std::string figures(double n) { return n >= 1000 ? grouped(n) : fmt::format("{:.3g}", n); }

/// In which a buyer says a time: its seconds and its name.
std::pair<double, std::string_view> time_unit(double seconds) {
  constexpr double kMinute = 60, kHour = 3600, kDay = 86400, kYear = 365.25 * kDay;
  if (seconds < 2 * kMinute) return {1, "s"};
  if (seconds < 2 * kHour) return {kMinute, "min"};
  if (seconds < 2 * kDay) return {kHour, "h"};
  return seconds < 2 * kYear ? std::pair{kDay, "d"} : std::pair{kYear, "years"};
}

}  // namespace

std::string time_text(double seconds) {
  const auto [unit, name] = time_unit(seconds);
  if (unit == 1) return seconds_text(seconds);
  const double n = seconds / unit;
  return fmt::format("{} {}", n >= 1e6 ? millions(n) : figures(n), name);
}

std::string time_range_text(double low, double high) {
  const auto [unit, name] = time_unit(high);
  const bool shared = unit > 1 && low >= unit / 10;
  return fmt::format("{} to {}", shared ? fmt::format("{} {}", figures(low / unit), name) : time_text(low),
                     time_text(high));
}

std::string money_text(double usd) {
  if (usd >= 999'500) return millions(std::stod(fmt::format("{:.3g}", usd))) + " USD";
  if (usd >= 100) return grouped(std::round(usd)) + " USD";
  return usd < 0.005 ? "under 0.01 USD" : fmt::format("{:.2f} USD", usd);
}

std::string energy_text(double joules) {
  const double kwh = joules / 3.6e6;
  if (kwh < 0.001) return "under 1 Wh";
  if (kwh >= 1e6) return figures(kwh / 1e6) + " GWh";
  return kwh >= 1000 ? fmt::format("{:.3g} MWh", kwh / 1e3) : fmt::format("{:.3g} kWh", kwh);
}

std::string watts_text(double watts) {
  if (watts >= 1e6) return figures(watts / 1e6) + " MW";
  return watts >= 1000 ? fmt::format("{:.3g} kW", watts / 1e3) : fmt::format("{:.3g} W", watts);
}

std::string chance_text(double p) {
  const double percent = 100 * p;
  if (percent > 99) return "over 99 %";
  return percent < 1 ? "under 1 %" : fmt::format("{:.0f} %", percent);
}

std::string amount_text(double amount) {
  if (amount >= 1e6) return amount < 1e9 && amount == std::round(amount) ? grouped(amount) : millions(amount);
  return amount >= 1000 ? grouped(amount) : fmt::format("{:.6g}", amount);
}

std::string target_text(std::string_view what, double amount) {
  if (what == "loss") return fmt::format("to a loss of {:.4g}", amount);
  return fmt::format("{} {}", amount_text(amount), what.substr(0, what.size() - (amount == 1 ? 1 : 0)));
}

}  // namespace tandem::plan
