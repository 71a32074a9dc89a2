// SPDX-License-Identifier: Apache-2.0
#include "calibration/validate/check_result.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include "base/json_writer.h"

#include "base/data.h"
#include "base/statistics.h"

namespace tandem::calibration {

namespace {

constexpr std::string_view kExecuted = "calibration/data/executed";
constexpr double kLevel = 0.9;

/// The kind of a row, for means per kind.
std::string group_of(const CheckRow& r) {
  const std::string unlike = r.throttle == 1 ? "" : fmt::format(", one {:g} times slower", r.throttle);
  if (r.metric != "samples_per_second") return r.metric + fmt::format(", {} workers", r.devices) + unlike;
  if (r.devices == 1) return "throughput, one worker";
  if (!r.rate_limit.empty()) return "throughput, ring over links of " + r.rate_limit;
  const auto is = [&](std::string_view scheme) { return r.scheme.starts_with(scheme); };
  if (is("pipeline") || is("tensor-parallel") || is("hybrid"))
    return fmt::format("throughput, model split, {} workers", r.devices);
  if (r.scheme.find("parameter-server") == std::string::npos)
    return fmt::format("throughput, all-reduce, {} workers", r.devices);
  return fmt::format("throughput, parameter server, {} workers{}", r.devices, unlike);
}

std::string group_table(const std::vector<CheckRow>& rows) {
  struct Sum {
    bool distance;
    int64_t count = 0;
    double error = 0, most = 0, floor = 0;
  };
  std::vector<std::pair<std::string, Sum>> groups;
  for (const CheckRow& r : rows) {
    const std::string name = group_of(r);
    auto at = std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first == name; });
    if (at == groups.end()) at = groups.insert(groups.end(), {name, {r.distance()}});
    ++at->second.count;
    at->second.error += std::abs(r.error);
    at->second.most = std::max(at->second.most, std::abs(r.error));
    at->second.floor += r.floor;
  }
  std::string out =
      "| what | cases | mean error | largest | repeats within |\n| --- | ---: | ---: | ---: | ---: |\n";
  for (const auto& [name, s] : groups) {
    const auto n = static_cast<double>(s.count);
    const auto cell = [distance = s.distance](double x) {
      return distance ? fmt::format("{:.3f}", x) : fmt::format("{:.1f} %", 100 * x);
    };
    out += fmt::format("| {} | {} | {} | {} | {} |\n", name, s.count, cell(s.error / n), cell(s.most),
                       cell(s.floor / n));
  }
  return out;
}

}  // namespace

std::string CheckRow::how() const {
  return throttle == 1 ? scheme : fmt::format("{}, worker {} throttled {:g}", scheme, devices - 1, throttle);
}

std::vector<std::string> CheckRow::cells() const {
  const bool d = distance();
  return {trained(),
          std::to_string(batch),
          std::to_string(devices),
          how(),
          rate_limit,
          metric,
          d ? "" : fmt::format("{:.4g}", predicted),
          d ? "" : fmt::format("{:.4g}", executed),
          d ? fmt::format("{:.3f}", error) : fmt::format("{:+.1f} %", 100 * error),
          !repeated ? "-"
          : d       ? fmt::format("{:.3f}", floor)
                    : fmt::format("{:.1f} %", 100 * floor)};
}

CheckResult::Summary CheckResult::summary() const {
  Summary s;
  int64_t counted = 0;
  for (const CheckRow& r : rows) {
    if (r.interval) {
      ++s.intervals;
      s.covered += r.covered ? 1 : 0;
      s.wide += says_nothing(r.low, r.high) ? 1 : 0;
    }
    if (r.distance()) continue;
    s.mean += std::abs(r.error);
    s.most = std::max(s.most, std::abs(r.error));
    ++counted;
  }
  if (counted > 0) s.mean /= static_cast<double>(counted);
  if (s.intervals > 0) s.covered /= static_cast<double>(s.intervals);
  return s;
}

std::vector<std::string> CheckResult::failures(double tolerance) const {
  std::vector<std::string> out;
  for (const CheckRow& r : rows) {
    if (r.distance() || std::abs(r.error) <= tolerance) continue;
    out.push_back(fmt::format("{}, {} worker{}, {}{}: {} {:+.1f} %", r.trained(), r.devices,
                              r.devices == 1 ? "" : "s", r.how(),
                              r.rate_limit.empty() ? "" : " over " + r.rate_limit, r.metric, 100 * r.error));
  }
  return out;
}

std::string CheckResult::to_json() const {
  JsonWriter d = {{"schema", "tandem-check-1"},
                  {"machine", machine},
                  {"date", date},
                  {"versions", versions},
                  {"cases", JsonWriter::array()}};
  if (precision != "fp32") d["precision"] = precision;
  for (const CheckRow& r : rows) {
    d["cases"].push_back({{"model", r.model},
                          {"scheme", r.scheme},
                          {"devices", r.devices},
                          {"batch_per_device", r.batch},
                          {"metric", r.metric},
                          {"predicted", r.predicted},
                          {"executed", r.executed},
                          {"error", r.error},
                          {"repeatability", r.repeated ? JsonWriter(r.floor) : JsonWriter()}});
    if (r.median > 0) d["cases"].back()["executed_median"] = r.median;
    if (!r.adapter.empty()) d["cases"].back()["adapter"] = r.adapter;
    if (r.throttle != 1) d["cases"].back()["throttle"] = r.throttle;
    if (!r.rate_limit.empty()) d["cases"].back()["rate_limit"] = r.rate_limit;
    if (r.interval) d["cases"].back()["in_interval"] = r.covered;
    if (r.high > 0) d["cases"].back()["interval"] = {{"low", r.low}, {"high", r.high}, {"level", kLevel}};
  }
  const Summary s = summary();
  d["mean_abs_error"] = s.mean;
  d["max_abs_error"] = s.most;
  d["interval_level"] = kLevel;
  d["interval_coverage"] = s.covered;
  if (load.processors > 0 || load.preempted > 0) d["run"] = load.to_json();
  return d.dump(2) + "\n";
}

CheckResult CheckResult::from_json(const Json& d) {
  if (d.text("schema", "") != "tandem-check-1") d.fail("is no \"tandem-check-1\" document");
  CheckResult out;
  out.machine = d.text("machine", "");
  out.date = d.text("date", "");
  out.versions = d.text("versions", "");
  out.note = d.text("note", "");
  out.precision = d.text("precision", "fp32");
  for (const Json& j : d.at("cases").items()) {
    CheckRow r;
    r.model = j.at("model").as_text();
    r.scheme = j.at("scheme").as_text();
    r.metric = j.at("metric").as_text();
    if (const Json* old = j.find("pace"))
      throw InputError(old->place(), "\"pace\" is of version 0.1: check again (tandem check)");
    r.rate_limit = j.text("rate_limit", "");
    r.throttle = j.real("throttle", 1, 1, 1e6);
    r.adapter = j.text("adapter", "");
    r.devices = j.at("devices").as_int(1, 1'000'000);
    r.batch = j.at("batch_per_device").as_int(1);
    r.predicted = j.at("predicted").as_real(0, 1e300);
    r.executed = j.at("executed").as_real(0, 1e300);
    r.error = j.at("error").as_real(-1e300, 1e300);
    r.repeated = j.at("repeatability").kind() != Json::Kind::null;
    if (r.repeated) r.floor = j.at("repeatability").as_real(0, 1e300);
    r.median = j.real("executed_median", 0, 0, 1e300);
    r.interval = j.find("in_interval") != nullptr;
    r.covered = r.interval && j.at("in_interval").as_bool();
    if (const Json* interval = j.find("interval")) {
      r.low = interval->at("low").as_real(0, 1e300);
      r.high = interval->at("high").as_real(0, 1e300);
    }
    out.rows.push_back(std::move(r));
  }
  if (const Json* run = d.find("run")) out.load = HostLoad::from_json(*run);
  return out;
}

std::string executed_markdown() {
  std::string out =
      "\n## Executed\n\nWhat `tandem check --format json` found, row by row in "
      "[calibration/data/executed](calibration/data/executed): the machine is measured on the\nmodels of "
      "`calibration/suite`, and *other* models are predicted and run. Distances are total "
      "variations of histograms\nof staleness, or of workers' means in versions. The last column is the "
      "machine's "
      "own repeatability: the fastest of every other\nrun against the fastest of the rest.\n";
  for (const std::string& name : list_data(kExecuted)) {
    const CheckResult r = CheckResult::from_json(Json::load(find_data(kExecuted, "check", name)));
    const CheckResult::Summary s = r.summary();
    out += fmt::format(
        "\n### {}\n\n{}; {}; {}{}.{} Mean error {:.1f} %, largest {:.1f} %; {:.0f} % of {} executions lie in "
        "their {:.0f} % interval.\n\n{}",
        name, r.machine, r.date, r.versions, r.precision == "fp32" ? "" : "; " + r.precision,
        r.note.empty() ? "" : " " + r.note, 100 * s.mean, 100 * s.most, 100 * s.covered, s.intervals,
        100 * kLevel, group_table(r.rows));
  }
  return out;
}

}  // namespace tandem::calibration
