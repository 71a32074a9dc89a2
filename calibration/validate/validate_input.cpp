// SPDX-License-Identifier: Apache-2.0
#include "calibration/validate/validate_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/data.h"
#include "base/json.h"
#include "base/units.h"
#include "calibration/validate/asking.h"
#include "calibration/validate/series.h"
#include "sim/simulate.h"

namespace tandem::calibration {

namespace {

/// Keys that a run's two series share.
constexpr const char* kBesideInput[] = {"system", "model",     "scheme", "precision",
                                        "batch",  "optimizer", "recipe"};

bool has_input(const Json& series, const char* which) { return series.text("input", "synthetic") == which; }

/// The file's entry on a table's model.
struct LoaderOf {
  std::string name;
  double decode_seconds = 0;
  int64_t workers = 0;
};

void add_run(const Json& without, const Json& with, const LoaderOf& loader, std::vector<InputRow>& rows) {
  const auto base = values_of(without), loaded = values_of(with);
  const Question q =
      question_of(without, {{"batch", std::to_string(without.at("batch").as_int(1, 1'000'000))}});
  Request p = q.request(1);
  p.job.loading.workers = loader.workers;
  if (loader.decode_seconds > 0) p.job.loading.decode_seconds = loader.decode_seconds;
  p.check_memory = false;
  const HostInfo& host = q.system.host(0);
  for (const auto& [devices, rate] : loaded) {
    const auto alone = base.find(devices);
    if (alone == base.end()) continue;
    p.devices = devices;
    p.anchor = Anchor{alone->second, devices, p.job.batch, &q.system, nullptr};
    p.job.input = false;
    p.anchor->scale = anchored_scale(p);
    const double before = simulate_rate(p).rate.samples_per_second;
    p.job.input = true;
    const double after = simulate_rate(p).rate.samples_per_second;
    const double threads = std::min<double>(host.cores, static_cast<double>(loader.workers * devices));
    rows.push_back({q.system.name(), q.graph.name(), without.text("precision", "fp32"), loader.name,
                    p.job.batch, devices, loader.workers, alone->second, rate / alone->second, after / before,
                    loader.decode_seconds > 0 ? threads * host.core_speed / loader.decode_seconds : 0});
  }
}

Json input_pairs() { return Json::load(data_root() + "/calibration/data/input_pairs.json"); }

}  // namespace

std::vector<InputRow> validate_input() {
  const Json document = input_pairs();
  document.only({"note", "loaders", "runs", "not_described", "left_out"});
  std::vector<InputRow> rows;
  for (const Json& run : document.at("runs").items()) {
    run.only({"table", "model", "loader", "decode_workers", "source"});
    const Json& loader = document.at("loaders").at(run.at("loader").as_text());
    loader.only({"decode", "source"});
    const Json& decode = loader.at("decode");
    const LoaderOf of{run.at("loader").as_text(), parse_time(decode.as_text(), decode.place()).seconds(),
                      run.integer("decode_workers", 1, 1, 4096)};
    const Json& name = run.at("table");
    const Json table =
        Json::load(find_data("calibration/data/published", "published table", name.as_text(), name.place()));
    const std::size_t before = rows.size();
    for (const Json& without : table.at("series").items()) {
      if (!has_input(without, "synthetic") || without.at("model").as_text() != run.at("model").as_text())
        continue;
      for (const Json& with : table.at("series").items()) {
        if (has_input(with, "real") && agree(without, with, kBesideInput)) add_run(without, with, of, rows);
      }
    }
    if (rows.size() == before) run.fail("no run of this model is published with and without input");
  }
  return rows;
}

std::string input_markdown(const std::vector<InputRow>& rows) {
  double error = 0, error_of_one = 0, worst = 0;
  int64_t near = 0;
  for (const InputRow& r : rows) {
    const double off = std::abs(r.predicted / r.published - 1);
    error += off / static_cast<double>(rows.size());
    error_of_one += std::abs(1 / r.published - 1) / static_cast<double>(rows.size());
    worst = std::max(worst, off);
    near += off <= 0.08 ? 1 : 0;
  }
  std::string out = fmt::format(
      "\n## With and without input\n\nRuns that are published twice "
      "([input_pairs.json](calibration/data/input_pairs.json)): the ratio of the rate with input to that\n"
      "without, published against predicted. The host is described by its cores, the threads of the loader "
      "and "
      "what a sample takes a\nloader of this kind, measured without training. Of {} runs {} are within 8 %, "
      "the "
      "mean error is {:.1f} %, the worst {:.1f} %;\npredicting no difference, {:.1f} %.\n\n"
      "| model | precision | batch | devices | threads a device | hosts decode | without | published | "
      "predicted |\n| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
      rows.size(), near, 100 * error, 100 * worst, 100 * error_of_one);
  for (const InputRow& r : rows)
    out +=
        fmt::format("| {} | {} | {} | {} | {} | {} | {:.0f}/s | {:.3f} | {:.3f} |\n", r.model, r.precision,
                    r.batch, r.devices, r.host > 0 ? std::to_string(r.workers) : "-",
                    r.host > 0 ? fmt::format("{:.0f}/s", r.host) : "-", r.without, r.published, r.predicted);
  const bool none =
      std::all_of(rows.begin(), rows.end(), [](const InputRow& r) { return r.predicted > 0.999; });
  if (none) out += "\nAs described, no host is slower than its devices: every ratio is predicted to be 1.\n";
  const Json document = input_pairs();
  out += "\nWhat no document describes:\n\n";
  for (const Json& what : document.at("not_described").items()) out += "- " + what.as_text() + ".\n";
  return out + "\nLeft out: " + document.at("left_out").as_text() + ".\n";
}

std::string input_csv(const std::vector<InputRow>& rows) {
  std::string out =
      "system,model,precision,loader,batch,devices,decode_workers,samples_per_second_without,host_decodes,"
      "published_ratio,predicted_ratio\n";
  for (const InputRow& r : rows)
    out += fmt::format("{},{},{},{},{},{},{},{:.6g},{:.6g},{:.6g},{:.6g}\n", r.system, r.model, r.precision,
                       r.loader, r.batch, r.devices, r.workers, r.without, r.host, r.published, r.predicted);
  return out;
}

}  // namespace tandem::calibration
