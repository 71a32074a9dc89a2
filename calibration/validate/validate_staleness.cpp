// SPDX-License-Identifier: Apache-2.0
#include "calibration/validate/validate_staleness.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "base/data.h"
#include "calibration/validate/asking.h"
#include "sim/simulate.h"

namespace tandem::calibration {

namespace {

/// Half the sum of absolute differences; what the published histogram lacks counts as its tail.
double total_variation(const Json& published, const Histogram& predicted) {
  std::map<int64_t, double> difference;
  double known = 0;
  for (const auto& [versions, share] : published.members()) {
    int64_t value = 0;
    const auto r = std::from_chars(versions.data(), versions.data() + versions.size(), value);
    if (r.ec != std::errc{} || value < 0) share.fail("the key is not a number of versions");
    difference[value] += share.as_real(0, 1);
    known += share.as_real(0, 1);
  }
  for (const Histogram::Bin& bin : predicted.bins()) {
    difference[bin.value] -= static_cast<double>(bin.count) / static_cast<double>(predicted.count());
  }
  double sum = std::abs(1 - known);
  for (const auto& [versions, d] : difference) sum += std::abs(d);
  return sum / 2;
}

}  // namespace

StalenessRow validate_staleness_run(const Json& json) {
  json.only({"name", "source", "system", "set", "model", "scheme", "devices", "batch", "jitter", "iterations",
             "gives", "mean", "histogram"});
  const auto number = [&](const char* key, int64_t most) {
    return std::to_string(json.at(key).as_int(1, most));
  };
  System::Sets sets{{"nodes", "64"}};
  if (const Json* set = json.find("set")) {
    for (const auto& [path, value] : set->members()) sets.emplace_back(path, value.as_text());
  }
  Question q = question_of(json, {{"optimizer", "sgd"},
                                  {"devices", number("devices", 100'000)},
                                  {"batch", number("batch", 1'000'000)},
                                  {"iterations", number("iterations", 100'000)},
                                  {"jitter", fmt::format("{}", json.at("jitter").as_real(0, 10))},
                                  {"input", "synthetic"}});
  q.system = q.system.with(sets);
  const Report report = simulate(q.request(q.devices[0]));
  StalenessRow row{json.at("name").as_text(),
                   json.at("source").as_text(),
                   q.scheme.name,
                   q.devices[0],
                   json.text("gives", ""),
                   json.at("mean").as_real(0),
                   report.staleness.all.mean(),
                   -1};
  if (const Json* histogram = json.find("histogram"))
    row.distance = total_variation(*histogram, report.staleness.all);
  return row;
}

std::vector<StalenessRow> validate_staleness() {
  const Json document = Json::load(data_root() + "/calibration/data/staleness.json");
  document.only({"note", "runs"});
  std::vector<StalenessRow> rows;
  for (const Json& run : document.at("runs").items()) rows.push_back(validate_staleness_run(run));
  return rows;
}

std::string staleness_markdown(const std::vector<StalenessRow>& rows) {
  std::string out =
      "\n## Staleness\n\nMean gradient staleness in versions, and the total variation distance between the "
      "predicted and the published histogram\n(0 = equal, 1 = disjoint), each the largest of the source's "
      "cases "
      "([staleness.json](calibration/data/staleness.json)). Runs that set the spread of step times for "
      "others of their kind are\nnot scored.\n\n"
      "| source | runs that gave | cases | largest error of the mean | mean distance | largest distance |\n"
      "| --- | ---: | ---: | ---: | ---: | ---: |\n";
  struct Sum {
    int64_t gave = 0, cases = 0;
    double error = 0, distance = -1, sum = 0;
  };
  std::vector<std::pair<std::string, Sum>> sources;  // in their order
  for (const StalenessRow& r : rows) {
    auto at =
        std::find_if(sources.begin(), sources.end(), [&](const auto& s) { return s.first == r.source; });
    if (at == sources.end()) at = sources.insert(sources.end(), {r.source, {}});
    if (!r.gives.empty()) {
      ++at->second.gave;
      continue;
    }
    ++at->second.cases;
    at->second.sum += r.distance;
    const double error = r.predicted_mean / r.published_mean - 1;
    if (std::abs(error) > std::abs(at->second.error)) at->second.error = error;
    at->second.distance = std::max(at->second.distance, r.distance);
  }
  for (const auto& [source, s] : sources) {
    const auto cell = [&s = s](double d) { return s.distance < 0 ? "–" : fmt::format("{:.2f}", d); };
    out += fmt::format("| {} | {} | {} | {:+.1f} % | {} | {} |\n", source, s.gave, s.cases, 100 * s.error,
                       cell(s.sum / static_cast<double>(s.cases)), cell(s.distance));
  }
  return out;
}

}  // namespace tandem::calibration
