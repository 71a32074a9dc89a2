// SPDX-License-Identifier: Apache-2.0
#include "calibration/validate/validate_splits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>

#include "base/data.h"
#include "base/in_parallel.h"
#include "base/statistics.h"
#include "calibration/validate/asking.h"
#include "calibration/validate/series.h"
#include "calibration/validate/validation_statistics.h"
#include "sim/bound/placement.h"
#include "sim/simulate.h"

namespace tandem::calibration {

namespace {

constexpr std::string_view kSplits = "calibration/data/splits";

/// Keys of a row about the published run, not about the prediction.
constexpr std::string_view kToldOfSplits[] = {"value", "anchor", "fitted", "note", "doubtful"};

double dull_rate(const Request& p) {
  const Options& o = p.job.scheme->options;
  const double stages = static_cast<double>(o.count("pipeline")),
               micro = std::max<int64_t>(1, o.count("microbatches")),
               chunks = std::max<int64_t>(1, o.count("chunks"));
  const double bubble = stages > 1 ? (stages - 1) / (chunks * micro + stages - 1) : 0;
  const Device& device = p.system->device(p.system->accelerators()[0]);
  const double peak = device.product_peak(p.job.precision).flops_per_second;
  return 0.4 * peak * (1 - bubble) * static_cast<double>(p.devices) /
         (3 * static_cast<double>(p.job.graph->forward_flops().n));  // backward takes twice as many
}

void predict_split(SplitRow& row, const Json& document) {
  auto asked = on_devices(row.system, row.devices, document.at("system").place());
  const std::vector<std::pair<std::string, std::string>> options = {
      {"model", row.model},
      {"scheme", row.scheme},
      {"batch", std::to_string(row.batch)},
      {"precision", row.precision},
      {"optimizer", document.text("optimizer", "adam")},
      {"recipe", document.text("recipe", std::string(kDefaultRecipe))},
      {"recompute", row.recompute.text()},
      {"input", "synthetic"}};
  asked.insert(asked.end(), options.begin(), options.end());
  if (!row.adapter.empty()) asked.emplace_back("adapter", row.adapter);
  const Question q = question_of(document, asked);
  Request p = q.request(row.devices);
  p.check_memory = false;  // it ran
  row.nodes = make_cluster(q.system, row.devices).nodes;
  row.dull = dull_rate(p);
  const Report r = simulate_rate(p);
  row.predicted = r.rate.samples_per_second;
  row.low = r.rate.interval.low;
  row.high = r.rate.interval.high;
  row.errors = r.rate.errors;
}

SplitRow read_split(const Json& document, const Json& json) {
  json.only({"model", "devices", "scheme", "batch", "precision", "recompute", "adapter", "value", "anchor",
             "fitted", "note", "doubtful"});
  SplitRow row;
  row.file = document.place().file->substr(document.place().file->rfind('/') + 1);
  row.source = document.at("source").as_text();
  row.system = document.at("system").as_text();
  row.precision = json.text("precision", document.text("precision", "bf16"));
  row.held_out = !json.boolean("fitted", false);
  const Json* of_all = document.find("model");
  row.model = json.text("model", of_all != nullptr ? of_all->as_text() : "");
  if (row.model.empty()) json.at("model");
  row.devices = json.at("devices").as_int(1, 1'000'000);
  row.scheme = json.at("scheme").as_text();
  row.batch = json.at("batch").as_int(1, 1'000'000);
  row.recompute = parse_recompute(json.text("recompute", document.text("recompute", "off")), json.place());
  row.adapter = json.text("adapter", "");
  row.published = json.at("value").as_real(1e-12);
  row.is_anchor = json.boolean("anchor", false);
  row.note = json.text("note", "");
  row.doubtful = json.text("doubtful", "");
  return row;
}

bool judged(const SplitRow& r) { return r.failure.empty() && r.doubtful.empty() && r.held_out; }

using SplitRate = double SplitRow::*;

/// Errors of one kind of prediction on the rows of a file.
struct Judgement {
  Errors alone, anchored;
  std::optional<double> order;  ///< Kendall's tau over the configurations of one model, averaged over models
};

Judgement judge(const std::vector<const SplitRow*>& rows, SplitRate rate) {
  Judgement out;
  double scale = 0;
  for (const SplitRow* r : rows) {
    if (r->is_anchor) scale = r->published / r->*rate;
  }
  std::map<std::string, std::pair<std::vector<double>, std::vector<double>>> by_model;  // rates a device
  for (const SplitRow* r : rows) {
    out.alone.all.push_back(r->*rate / r->published - 1);
    if (!r->is_anchor && scale > 0) out.anchored.all.push_back(scale * (r->*rate) / r->published - 1);
    auto& [measured, ours] = by_model[r->model];
    measured.push_back(r->published / static_cast<double>(r->devices));
    ours.push_back(r->*rate / static_cast<double>(r->devices));
    if (rate != &SplitRow::predicted) continue;
    ++out.alone.intervals;
    if (r->published >= r->low && r->published <= r->high) ++out.alone.held;
  }
  std::vector<double> orders;
  for (const auto& [model, rates] : by_model) {
    if (rates.first.size() >= 3) orders.push_back(kendall_tau(rates.first, rates.second));
  }
  if (!orders.empty())
    out.order = std::accumulate(orders.begin(), orders.end(), 0.0) / static_cast<double>(orders.size());
  return out;
}

std::string judgement_cells(const Judgement& j) {
  const std::string anchored =
      j.anchored.all.empty()
          ? "– | –"
          : fmt::format("{:.1f} % | {:.1f} %", 100 * j.anchored.mean(), 100 * j.anchored.quantile(1));
  return fmt::format("{:+.1f} % | {:.1f} % | {} | {}", 100 * j.alone.bias(), 100 * j.alone.mean(), anchored,
                     j.order ? fmt::format("{:.2f}", *j.order) : "–");
}

std::vector<const SplitRow*> furthest_off(const std::vector<SplitRow>& rows) {
  std::vector<const SplitRow*> worst;
  for (const SplitRow& r : rows) {
    if (judged(r)) worst.push_back(&r);
  }
  const auto off = [](const SplitRow* r) { return std::abs(std::log(r->predicted / r->published)); };
  std::stable_sort(worst.begin(), worst.end(),
                   [&](const SplitRow* a, const SplitRow* b) { return off(a) > off(b); });
  if (worst.size() > 10) worst.resize(10);
  return worst;
}

}  // namespace

std::vector<SplitRow> validate_splits(const std::vector<std::string>& files, int threads) {
  std::vector<Json> documents;
  for (const std::string& name : files.empty() ? list_data(kSplits) : files) {
    documents.push_back(Json::load(find_data(kSplits, "table of split models", name)));
    documents.back().only({"title", "source", "note", "model", "system", "recipe", "precision", "optimizer",
                           "recompute", "rows"});
  }
  std::vector<SplitRow> out;
  std::vector<Asked> asked;
  for (const Json& document : documents) {
    for (const Json& row : document.at("rows").items()) {
      out.push_back(read_split(document, row));
      asked.push_back({&row, &document, out.back().devices});
    }
  }
  const std::vector<AskedOnce> groups = asked_once(asked, kToldOfSplits);
  in_parallel(groups.size(), threads, [&](std::size_t group) {
    const std::size_t first = groups[group].members.front();
    try {
      predict_split(out[first], *asked[first].document);
    } catch (const InputError& e) {
      out[first].failure = e.what();
    }
    for (const std::size_t i : groups[group].members) static_cast<SplitPrediction&>(out[i]) = out[first];
  });
  return out;
}

std::string splits_markdown(const std::vector<SplitRow>& rows) {
  std::string out =
      "\n## Models split over devices\n\nRates of models that tensor, pipeline and data parallelism divide, "
      "next to a dull model: 40 % of the devices' peak less the pipeline's bubble, communication free. "
      "\"One anchor\": one measured rate scales all predictions of its file. \"Order\": Kendall's tau over "
      "the configurations of one model. Rows that something was fitted to are left out. Vendors publish the "
      "best of a search: a prediction above theirs may be right, one below is an error.\n\n"
      "| file | rows | no prediction | inside the interval | bias | mean error | one anchor: mean | worst | "
      "order | dull: bias | mean error "
      "| one anchor: mean | worst | order "
      "|\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n";
  std::map<std::string, std::pair<std::vector<const SplitRow*>, int64_t>> files;  // and without prediction
  for (const SplitRow& r : rows) {
    if (judged(r))
      files[r.file].first.push_back(&r);
    else if (!r.failure.empty())
      ++files[r.file].second;
  }
  for (const auto& [file, held] : files) {
    const Judgement ours = judge(held.first, &SplitRow::predicted), dull = judge(held.first, &SplitRow::dull);
    out += fmt::format("| [{0}](calibration/data/splits/{0}.json) | {1} | {2} | {3:.0f} % | {4} | {5} |\n",
                       file.substr(0, file.rfind('.')), held.first.size(), held.second,
                       100 * ours.alone.coverage(), judgement_cells(ours), judgement_cells(dull));
  }
  out +=
      "\nFurthest off:\n\n| file | model | devices | scheme | batch | published | predicted | error |\n"
      "|---|---|---:|---|---:|---:|---:|---:|\n";
  for (const SplitRow* r : furthest_off(rows))
    out += fmt::format("| {} | {} | {} | {} | {} | {:.4g}/s | {:.4g}/s | {:+.1f} % |\n", r->file, r->model,
                       r->devices, r->scheme, r->batch, r->published, r->predicted,
                       100 * (r->predicted / r->published - 1));
  return out;
}

std::string splits_csv(const std::vector<SplitRow>& rows) {
  std::string out =
      "file,system,model,devices,nodes,scheme,batch,precision,recompute,published,predicted,low,high,dull,"
      "error_percent,anchor,held_out,doubtful,failure,note\n";
  const auto quoted = [](const std::string& text) { return '"' + text + '"'; };
  for (const SplitRow& r : rows) {
    out += fmt::format("{},{},{},{},{},{},{},{},{},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{},{},{},{},{},{}\n",
                       r.file, r.system, quoted(r.model), r.devices, r.nodes, quoted(r.scheme), r.batch,
                       r.precision, r.recompute.text(), r.published, r.predicted, r.low, r.high, r.dull,
                       r.failure.empty() ? fmt::format("{:.2f}", 100 * (r.predicted / r.published - 1)) : "",
                       r.is_anchor ? "yes" : "no", r.held_out ? "yes" : "no", quoted(r.doubtful),
                       quoted(r.failure), quoted(r.note));
  }
  return out;
}

}  // namespace tandem::calibration
