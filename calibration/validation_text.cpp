#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "calibration/validate.h"

namespace tandem {

namespace {

/// Mean, median and largest absolute error of a set of rows.
struct Errors {
  std::vector<double> all;
  void add(double e) { all.push_back(std::abs(e)); }
  double mean() const {
    double sum = 0;
    for (const double e : all) sum += e;
    return all.empty() ? 0 : sum / static_cast<double>(all.size());
  }
  double quantile(double q) const {
    if (all.empty()) return 0;
    std::vector<double> s = all;
    std::sort(s.begin(), s.end());
    return s[static_cast<std::size_t>(q * static_cast<double>(s.size() - 1))];
  }
};

using Filter = std::function<bool(const ValidationRow&)>;

bool usable(const ValidationRow& r) { return r.error.empty() && r.doubtful.empty(); }
bool has_speedup(const ValidationRow& r) {
  return usable(r) && r.published_speedup > 0 && r.devices > r.anchor_devices;
}
bool has_rate(const ValidationRow& r) { return usable(r) && !r.relative && !r.rate_assumed; }

Errors speedup_errors(const std::vector<ValidationRow>& rows, const Filter& f) {
  Errors e;
  for (const auto& r : rows) {
    if (has_speedup(r) && f(r)) e.add(r.speedup_error());
  }
  return e;
}
Errors rate_errors(const std::vector<ValidationRow>& rows, const Filter& f) {
  Errors e;
  for (const auto& r : rows) {
    if (has_rate(r) && f(r)) e.add(r.rate_error());
  }
  return e;
}
double coverage(const std::vector<ValidationRow>& rows, const Filter& f) {
  double in = 0, all = 0;
  for (const auto& r : rows) {
    if (!has_speedup(r) || r.relative || !f(r)) continue;
    all += 1;
    in += r.published >= r.low && r.published <= r.high ? 1 : 0;
  }
  return all > 0 ? in / all : 0;
}

struct Group {
  std::string name;
  Filter filter;
};

std::vector<Group> groups(const std::vector<ValidationRow>& rows) {
  const auto one_node = [](const ValidationRow& r) { return r.nodes == 1; };
  std::vector<Group> out = {
      {"CNNs, one node", [=](const auto& r) { return r.family == "cnn" && one_node(r); }},
      {"CNNs, several nodes", [=](const auto& r) { return r.family == "cnn" && !one_node(r); }},
      {"transformers, one node", [=](const auto& r) { return r.family == "transformer" && one_node(r); }},
      {"transformers, several nodes",
       [=](const auto& r) { return r.family == "transformer" && !one_node(r); }},
      {"recurrent", [](const auto& r) { return r.family == "recurrent"; }},
      {"all", [](const auto&) { return true; }}};
  std::vector<std::string> files;
  for (const auto& r : rows) {
    if (std::find(files.begin(), files.end(), r.file) == files.end()) files.push_back(r.file);
  }
  for (const std::string& f : files) out.push_back({f, [f](const auto& r) { return r.file == f; }});
  return out;
}

std::string percent(double x) { return fmt::format("{:.1f} %", 100 * x); }
std::string signed_percent(double x) { return fmt::format("{:+.1f} %", 100 * x); }

void summary(std::string& out, const std::vector<ValidationRow>& rows) {
  out +=
      "| rows | speed-ups | mean error | median | worst | in 90 % interval | rates without anchor | mean "
      "error | median | worst |\n"
      "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n";
  for (const Group& g : groups(rows)) {
    const Errors s = speedup_errors(rows, g.filter);
    const Errors t = rate_errors(rows, g.filter);
    if (s.all.empty() && t.all.empty()) continue;
    const auto cell = [](const Errors& e, double v) { return e.all.empty() ? std::string("–") : percent(v); };
    out += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", g.name, s.all.size(),
                       cell(s, s.mean()), cell(s, s.quantile(0.5)), cell(s, s.quantile(1)),
                       cell(s, coverage(rows, g.filter)), t.all.size(), cell(t, t.mean()),
                       cell(t, t.quantile(0.5)), cell(t, t.quantile(1)));
  }
}

std::string row_line(const ValidationRow& r) {
  std::string remarks = r.note;
  if (!r.doubtful.empty()) remarks = "**doubtful**: " + r.doubtful + (r.note.empty() ? "" : "; " + r.note);
  if (!r.error.empty()) remarks = "no prediction: " + r.error;
  const bool speed = r.published_speedup > 0 && r.error.empty();
  return fmt::format("| {} | {} | {} | {} {} | {} | {} | {:.5g} | {} | {} | {} | {} |\n", r.system, r.model,
                     r.scheme, r.precision, r.input, r.batch, r.devices, r.published,
                     r.relative ? "–" : fmt::format("{:.5g}", r.unanchored),
                     r.relative || !r.error.empty() ? "–" : signed_percent(r.rate_error()),
                     r.is_anchor ? "anchor"
                     : !speed    ? "–"
                              : fmt::format("{:.3g} / {:.3g} = {}", r.predicted_speedup, r.published_speedup,
                                            signed_percent(r.speedup_error())),
                     remarks);
}

}  // namespace

std::string validation_markdown(const std::vector<ValidationRow>& rows) {
  std::string out =
      "# Predicted against published and executed\n\n"
      "Made by `tandem validate --out VALIDATION.md`; the figures and their sources stand in "
      "`calibration/data/published`.\n\n"
      "Published training rates come first, then published staleness, collectives as NCCL's own benchmark "
      "measured them, and\n"
      "what was executed next to its prediction.\n\n"
      "- **Speed-up**: compute is scaled so that the prediction meets one row of each series (its *anchor*, "
      "the fewest\n"
      "  devices); the error is that of predicted over published speed-up on every row with more devices.\n"
      "- **Rate without anchor**: throughput from datasheets and the stock efficiency curves alone.\n"
      "- Rows marked doubtful contradict their own source or the original they cite: shown, never "
      "counted.\n"
      "- **In or out of sample**: files called `held_out_*` are out of "
      "sample; two overheads of `tf-replicated-no-xla` alone\n"
      "  come from their RTX 8000 rows without XLA, and U-Net's scripts were "
      "asked for XLA because its rows stood out.\n"
      "  All other speed-ups are "
      "in sample: presets' overheads, and the switches,\n"
      "  bridges and copy caps of boards whose layout was not published, "
      "were set on means of these very tables (a preset's\n"
      "  or system's `source` says which), and so was the width of the "
      "intervals. The storage of lisa-1080ti comes from one\n"
      "  row of PRACE Table 8. The stock curves rest on single-device rates "
      "that overlap with the rows here: errors with\n"
      "  devices and model families left out are printed by "
      "`calibration/fit_stock.py`, with systems left out by\n"
      "  "
      "`calibration/fit_collectives.py`.\n"
      "\n## Summary\n\n";
  summary(out, rows);
  std::string file;
  for (const ValidationRow& r : rows) {
    if (r.file != file) {
      file = r.file;
      out += fmt::format(
          "\n## {}\n\nSource: {}\n\n| system | model | scheme | precision, input | batch | devices | "
          "published | "
          "predicted without anchor | error | speed-up predicted / published | remarks |\n"
          "| --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |\n",
          file, r.source);
    }
    out += row_line(r);
  }
  return out;
}

std::string validation_json(const std::vector<ValidationRow>& rows,
                            const std::vector<StalenessRow>& staleness) {
  nlohmann::ordered_json doc = {{"schema", "tandem-validation-1"}};
  for (const Group& g : groups(rows)) {
    const Errors s = speedup_errors(rows, g.filter);
    const Errors t = rate_errors(rows, g.filter);
    if (s.all.empty() && t.all.empty()) continue;
    doc["summary"].push_back({{"rows", g.name},
                              {"speedups", s.all.size()},
                              {"speedup_mean_error", s.mean()},
                              {"speedup_worst_error", s.quantile(1)},
                              {"interval_coverage", coverage(rows, g.filter)},
                              {"rates", t.all.size()},
                              {"rate_mean_error", t.mean()},
                              {"rate_worst_error", t.quantile(1)}});
  }
  for (const ValidationRow& r : rows) {
    doc["rows"].push_back({{"file", r.file},
                           {"system", r.system},
                           {"model", r.model},
                           {"scheme", r.scheme},
                           {"precision", r.precision},
                           {"input", r.input},
                           {"family", r.family},
                           {"nodes", r.nodes},
                           {"batch", r.batch},
                           {"devices", r.devices},
                           {"published", r.published},
                           {"anchor", r.is_anchor},
                           {"relative", r.relative},
                           {"unanchored", r.unanchored},
                           {"anchored", r.anchored},
                           {"published_speedup", r.published_speedup},
                           {"predicted_speedup", r.predicted_speedup},
                           {"low", r.low},
                           {"high", r.high},
                           {"doubtful", r.doubtful},
                           {"error", r.error},
                           {"note", r.note}});
  }
  for (const StalenessRow& r : staleness) {
    doc["staleness"].push_back({{"name", r.name},
                                {"workers", r.workers},
                                {"published_mean", r.published_mean},
                                {"predicted_mean", r.predicted_mean},
                                {"distance", r.distance}});
  }
  return doc.dump(1) + "\n";
}

}  // namespace tandem
