// SPDX-License-Identifier: Apache-2.0
#include "calibration/validate/visit_predictions.h"

#include <fmt/format.h>

#include <cctype>
#include <tuple>
#include <vector>

#include "calibration/validate/validation_statistics.h"

namespace tandem::calibration {

namespace {

constexpr double kMostVisitRate = 1e12, kMostVisitWatts = 1e6, kMostMemory = 1e15;
constexpr const char* kNotRun = "not yet run";

using Trained = std::tuple<std::string, int64_t, std::string>;  // model and options, batch, precision
Trained trained(const Json& row) {
  return {trained_name(row), row.at("batch").as_int(1), row.at("precision").as_text()};
}

struct Measured {
  double rate = 0, watts = 0;
};

/// Rows of a visit that began after `date`; the last of a training counts.
std::map<Trained, Measured> measured_since(const Json& visit, const std::string& date) {
  std::map<Trained, Measured> out;
  for (const Json& row : visit.at("tandem").items()) {
    const std::string at = row.text("kernels", visit.at("date").as_text());
    const bool dated = !at.empty() && std::isdigit(static_cast<unsigned char>(at[0])) != 0;
    if (!dated || at < date) continue;
    out[trained(row)] = {row.at("samples_per_second").as_real(0, kMostVisitRate),
                         row.real("watts", 0, 0, kMostVisitWatts)};
  }
  return out;
}

std::string row_text(const Json& row, const std::map<Trained, Measured>& measured, Errors& judged) {
  const double rate = row.at("samples_per_second").as_real(0, kMostVisitRate),
               low = row.at("low").as_real(0, kMostVisitRate),
               high = row.at("high").as_real(0, kMostVisitRate);
  const auto found = measured.find(trained(row));
  const Json* watts = row.find("watts");
  std::string seen = kNotRun, error, drawn;
  if (found != measured.end()) {
    const Measured& m = found->second;
    seen = fmt::format("{:.4g}", m.rate);
    error = fmt::format("{:+.1f} %", 100 * (rate / m.rate - 1));
    if (m.watts > 0) drawn = fmt::format("{:.0f}", m.watts);
    judged.all.push_back(rate / m.rate - 1);
    ++judged.intervals;
    judged.held += low <= m.rate && m.rate <= high;
  }
  return fmt::format(
      "\n| {}, {} | {} | {} | {:.4g} | {:.4g} to {:.4g} | {} | {} | {} | {} | {:.2f} |", trained_name(row),
      row.at("batch").as_int(1), row.at("precision").as_text(), row.at("profile").as_text(), rate, low, high,
      seen, error,
      watts == nullptr ? "" : fmt::format("{:.0f}", watts->at("mean").as_real(0, kMostVisitWatts)), drawn,
      row.at("memory_bytes").at("nvidia_smi").as_real(0, kMostMemory) / 1024 / 1024 / 1024);
}

}  // namespace

std::string trained_name(const Json& row) {
  std::string out = row.at("model").as_text();
  if (const Json* options = row.find("options")) {
    for (const auto& [option, value] : options->members())
      out += fmt::format(", {} {}", option, value.as_text());
  }
  return out;
}

std::string visit_predictions_markdown(const Json& predicted, const std::map<std::string, Json>& visits) {
  const std::string date = predicted.at("date").as_text();
  std::string out = fmt::format(
      "\n## Predicted before it was measured\n\nWhat `{}` wrote on {} by {}, and what visits after that date "
      "measured:\nsamples per second with the 90 % interval, watts of the GPU and GiB as nvidia-smi shows "
      "them. Kernels are those of the profile\nthat is named; on a chip other than its own, times what the "
      "stock curves say of the one over the other.\n",
      predicted.at("command").as_text(), date, predicted.at("program").as_text());
  std::vector<std::string> systems;
  std::map<std::string, std::vector<const Json*>> rows;
  for (const Json& row : predicted.at("rows").items()) {
    std::vector<const Json*>& own = rows[row.at("system").as_text()];
    if (own.empty()) systems.push_back(row.at("system").as_text());
    own.push_back(&row);
  }
  for (const std::string& system : systems) {
    const auto visit = visits.find(system);
    const auto measured =
        visit == visits.end() ? std::map<Trained, Measured>() : measured_since(visit->second, date);
    out += fmt::format(
        "\n### {} as predicted\n\n| model, batch | format | profile | predicted | 90 % interval | measured | "
        "error | watts | measured watts | GiB |\n| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: "
        "| ---: |",
        system);
    Errors judged;
    for (const Json* row : rows[system]) out += row_text(*row, measured, judged);
    out += judged.all.empty()
               ? fmt::format("\n\nNone of {} rows was run yet.\n", rows[system].size())
               : fmt::format("\n\n{} of {} rows were run: mean error {:.1f} %, {} inside the interval.\n",
                             judged.all.size(), rows[system].size(), 100 * judged.mean(), judged.held);
  }
  return out;
}

}  // namespace tandem::calibration
