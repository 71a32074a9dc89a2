// SPDX-License-Identifier: Apache-2.0
#include "calibration/validate/validate_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "answers/answer.h"
#include "base/data.h"
#include "base/in_parallel.h"
#include "base/text.h"
#include "calibration/validate/asking.h"
#include "calibration/validate/validation_statistics.h"
#include "sim/simulate.h"

namespace tandem::calibration {

namespace {

constexpr std::string_view kRuns = "calibration/data/runs";
constexpr double kUnitOfTokens = 1e9, kSecondsOfHour = 3600;

/// Device-hours for 10^9 tokens; 0 where tokens are not published.
double published_hours(const Json& run) {
  if (run.find("tokens") != nullptr)
    return run.at("device_hours").as_real() / run.at("tokens").as_real() * kUnitOfTokens;
  const double rate = run.real("tokens_per_second", 0);
  return rate > 0 ? run.real("devices", 0) / rate / kSecondsOfHour * kUnitOfTokens : 0;
}

/// Formats that Tandem has no arithmetic of are what some runs compute in.
bool has_format(const std::string& precision) {
  for (int i = 0; i < kPrecisions; ++i) {
    if (name(static_cast<Precision>(i)) == precision) return true;
  }
  return false;
}

RunRow read_run(const std::string& file, const Json& run) {
  RunRow row;
  row.file = file;
  row.name = run.at("name").as_text();
  row.family = run.text("family", file);
  row.model = run.text("model", "");
  row.system = run.text("system", "");
  row.scheme = run.text("scheme", "");
  row.precision = run.text("precision", "");
  row.source = run.at("source").as_text();
  row.includes = run.text("includes", "");
  row.assumed = run.text("assumed", "");
  row.devices = static_cast<int64_t>(run.real("devices", 0));
  row.tokens = run.real("tokens", 0);
  row.published = published_hours(run);
  std::vector<std::string> unknown;
  for (const char* key : {"model", "system", "devices", "scheme", "batch", "precision"}) {
    if (run.find(key) == nullptr) unknown.emplace_back(key);
  }
  if (!row.precision.empty() && !has_format(row.precision)) unknown.push_back(row.precision);
  if (row.published == 0) unknown.emplace_back("tokens");
  for (const std::string& key : unknown)
    row.failure += (row.failure.empty() ? "not published, or not of Tandem's: " : ", ") + key;
  return row;
}

void predict_run(RunRow& row, const Json& run) {
  auto asked = on_devices(row.system, row.devices, run.at("system").place());
  asked.emplace_back("batch", std::to_string(run.at("batch").as_int(1, 1'000'000)));
  asked.emplace_back("input", "synthetic");
  if (const Json* adapter = run.find("adapter")) asked.emplace_back("adapter", adapter->as_text());
  const Question q = question_of(run, asked);
  Request p = q.request(row.devices);
  p.check_memory = false;  // it ran
  const Report r = simulate_rate(p);
  const auto tokens = static_cast<double>(q.graph.tokens_per_sample());
  const auto hours = [&](double rate) {
    return static_cast<double>(row.devices) / (rate * tokens) / kSecondsOfHour * kUnitOfTokens;
  };
  row.predicted = hours(r.rate.samples_per_second);
  row.low = hours(r.rate.interval.high);
  row.high = hours(r.rate.interval.low);
}

}  // namespace

std::vector<RunRow> validate_runs(int threads) {
  std::vector<Json> documents;
  for (const std::string& name : list_data(kRuns))
    documents.push_back(Json::load(find_data(kRuns, "table of runs", name)));
  std::vector<RunRow> out;
  std::vector<const Json*> runs;
  for (const Json& document : documents) {
    document.only({"summary", "note", "runs"});
    const std::string file = document.place().file->substr(document.place().file->rfind('/') + 1);
    for (const Json& run : document.at("runs").items()) {
      out.push_back(read_run(file, run));
      runs.push_back(&run);
    }
  }
  in_parallel(out.size(), threads, [&](std::size_t i) {
    if (!out[i].failure.empty()) return;
    try {
      predict_run(out[i], *runs[i]);
    } catch (const InputError& e) {
      out[i].failure = e.what();
    }
  });
  return out;
}

namespace {

std::string hours_text(double hours) { return fmt::format("{:.3g}", hours); }

std::string remarks(const RunRow& r) {
  std::string out = r.includes.empty() ? "" : "not judged, holds " + r.includes;
  if (!r.assumed.empty()) out += (out.empty() ? "" : "; ") + std::string("assumed: ") + r.assumed;
  return out;
}

}  // namespace

std::string runs_markdown(const std::vector<RunRow>& rows) {
  std::map<std::string, Errors> families;
  Errors all;
  for (const RunRow& r : rows) {
    if (!r.judged()) continue;
    add_error(families[r.family], r);
    add_error(all, r);
  }
  std::string out =
      "\n## Whole published runs\n\nDevice-hours for 10^9 tokens: those that the publisher states for the "
      "whole run, or of MLPerf what the rate without evaluations comes to, against those predicted from the "
      "layout, batch and precision of the run. Nothing was fitted to them. Predictions have no failures, "
      "evaluations "
      "or checkpoints; runs whose hours hold such are shown and not judged. An error above zero means too "
      "many "
      "hours.\n\n| family | ";
  out += kErrorHead;
  for (const auto& [family, errors] : families) out += fmt::format("| {} {}\n", family, worst_cells(errors));
  out += fmt::format("| **all** {}\n", worst_cells(all));
  out +=
      "\n| run | devices | system | scheme | published | predicted | 90 % interval | error | remarks |\n"
      "|---|---:|---|---|---:|---:|---:|---:|---|\n";
  for (const RunRow& r : rows) {
    if (!r.failure.empty()) continue;
    out += fmt::format("| {} | {} | {} | {} | {} | {} | {} to {} | {:+.1f} % | {} |\n", r.name, r.devices,
                       r.system, r.scheme, hours_text(r.published), hours_text(r.predicted),
                       hours_text(r.low), hours_text(r.high), 100 * r.error(), remarks(r));
  }
  out += "\nWithout a prediction:\n\n| run | why |\n|---|---|\n";
  for (const RunRow& r : rows) {
    if (!r.failure.empty()) out += fmt::format("| {} | {} |\n", r.name, r.failure);
  }
  return out;
}

std::string runs_csv(const std::vector<RunRow>& rows) {
  std::string out =
      "file,name,family,model,system,devices,scheme,precision,tokens,published,predicted,low,high,error_"
      "percent,"
      "includes,assumed,failure,source\n";
  for (const RunRow& r : rows)
    out += fmt::format("{},{},{},{},{},{},{},{},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{},{},{},{},{}\n", r.file,
                       csv_cell(r.name), csv_cell(r.family), csv_cell(r.model), r.system, r.devices,
                       csv_cell(r.scheme), r.precision, r.tokens, r.published, r.predicted, r.low, r.high,
                       r.failure.empty() ? fmt::format("{:.2f}", 100 * r.error()) : "", csv_cell(r.includes),
                       csv_cell(r.assumed), csv_cell(r.failure), csv_cell(r.source));
  return out;
}

}  // namespace tandem::calibration
