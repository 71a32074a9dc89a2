// SPDX-License-Identifier: Apache-2.0
// VALIDATION.md, the sections on rates and sources of its pages, and the rows as CSV and JSON.
#include <fmt/format.h>

#include <algorithm>
#include "base/json_writer.h"
#include "base/text.h"

#include "base/data.h"
#include "calibration/validate/validate.h"
#include "calibration/validate/validation_statistics.h"

namespace tandem::calibration {

namespace {

constexpr std::size_t kWorst = 20;
/// The sources with the largest errors: how many, and their least number of rows.
constexpr std::size_t kGaps = 12, kLeastRows = 3;

std::string percent(double x) { return fmt::format("{:.1f} %", 100 * x); }
std::string signed_percent(double x) { return fmt::format("{:+.1f} %", 100 * x); }

/// Rows, bias, mean, median and coverage, as cells.
std::string error_cells(const Errors& e) {
  if (e.all.empty()) return "– | – | – | – | –";
  return fmt::format("{} | {} | {} | {} | {}", e.all.size(), signed_percent(e.bias()), percent(e.mean()),
                     percent(e.quantile(0.5)),
                     e.intervals > 0 ? fmt::format("{:.0f} %", 100 * e.coverage()) : "–");
}

void introduction(std::string& out) {
  out +=
      "# Predicted against published and executed\n\n"
      "Written by `tandem validate --out VALIDATION.md`, with the pages in "
      "[docs/validation](docs/validation) "
      "and a table of every\nrow in `calibration/validation`. The published figures and their sources are in "
      "[calibration/data](calibration/data).\n\n"
      "- **Speed-up**: compute is scaled so that the prediction meets one row of each series, its *anchor*, "
      "on the fewest\n  devices. The error is predicted over published speed-up on every row with more.\n"
      "- **Rate without anchor**: throughput from datasheets and the stock efficiency curves alone.\n"
      "- **Bias** is the mean of the signed errors, **mean** and **median** are of their magnitudes. "
      "**Inside** is the share of\n  published figures within the 90 % interval of the prediction.\n"
      "- **Held out**: rows of files `held_out_*`, except series that say what was fitted to them "
      "(`fitted`). A rate is not\n  held out if its one-device rate was used to fit the stock curves.\n"
      "- Rows that contradict their source (`doubtful`) or that gave a figure (`gives`) are listed but not "
      "scored.\n\n";
}

void aims_table(std::string& out, const std::vector<ValidationRow>& rows) {
  out +=
      "## Aims\n\nOver held-out rows.\n\n| what | rows | aim | value | |\n"
      "| --- | ---: | ---: | ---: | --- |\n";
  for (const Aim& a : aims(rows)) {
    out += fmt::format("| {} | {} | {} | {} | {} |\n", a.what, a.rows, a.range(), a.figure(),
                       a.rows == 0 ? "no rows"
                       : a.met()   ? "met"
                                   : "not met");
  }
  const auto orders = orders_of_schemes(rows);
  if (orders.empty()) return;
  out +=
      "\nHKBU's rates are means of a few runs. A pair of schemes is clear where its means differ by more "
      "than "
      "twice the standard\ndeviation of their difference.";
  for (const SchemeOrder& o : orders)
    out += fmt::format(" On {} {} of {} pairs are; their tau is {:.2f}.", o.system, o.clear, o.pairs,
                       o.clear_tau);
  out += "\n";
}

void interval_table(std::string& out, const std::vector<ValidationRow>& rows) {
  out +=
      "\n## Intervals\n\nOver held-out rows. The width is the mean of ln(high / low). The score adds 20 "
      "times "
      "the distance of published figures\noutside their interval, as logarithms (Gneiting and Raftery 2007, "
      "eq. 43). It is lowest when intervals are as narrow as\npossible and hold nine out of ten.\n\n"
      "| what | nodes | rows | inside | width | score |\n| --- | --- | ---: | ---: | ---: | ---: |\n";
  for (const bool rates : {false, true}) {
    for (const bool several : {false, true}) {
      const auto filter = [&](const ValidationRow& r) {
        return (rates ? unseen_rate(r) : r.held_out) && (r.nodes > 1) == several;
      };
      const Errors e = rates ? rate_errors(rows, filter) : speedup_errors(rows, filter);
      if (e.intervals == 0) continue;
      out += fmt::format("| {} | {} | {} | {} | {:.2f} | {:.2f} |\n",
                         rates ? "rate without anchor" : "speed-up", several ? "several" : "one", e.intervals,
                         percent(e.coverage()), e.width(), e.interval_score());
    }
  }
}

void group_table(std::string& out, const std::vector<ValidationRow>& rows, bool held_out) {
  out += fmt::format(
      "\n### {}\n\n| devices | precision | models | nodes | speed-ups | bias | mean | median | inside | "
      "rates | "
      "bias | mean | median | inside |\n| --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | "
      "---: | ---: | ---: | ---: |\n",
      held_out ? "Held-out rows" : "All other rows");
  for (const RowGroup& g : row_groups(rows, held_out)) {
    out += fmt::format("| {} | {} | {} | {} | {} | {} |\n", g.generation, g.precision, g.family,
                       g.several_nodes ? "several" : "one", error_cells(g.speedups), error_cells(g.rates));
  }
  const Errors s = speedup_errors(rows, [&](const ValidationRow& r) { return r.held_out == held_out; });
  const Errors t = rate_errors(rows, [&](const ValidationRow& r) { return unseen_rate(r) == held_out; });
  out += fmt::format("| **all** | | | | {} | {} |\n", error_cells(s), error_cells(t));
}

void worst_table(std::string& out, const std::vector<ValidationRow>& rows) {
  out += fmt::format(
      "\n## The {} worst\n\nThe row of each series that is furthest off, as a ratio of rates or of "
      "speed-ups.\n\n"
      "| system | model | scheme | precision | batch | devices | rate | speed-up | reason |\n"
      "| --- | --- | --- | --- | ---: | ---: | ---: | ---: | --- |\n",
      kWorst);
  for (const ValidationRow* r : worst_rows(rows, kWorst)) {
    out +=
        fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", r->system, r->model, r->scheme,
                    r->precision, r->batch, r->devices, has_rate(*r) ? signed_percent(r->rate_error()) : "–",
                    has_speedup(*r) ? signed_percent(r->speedup_error()) : "–",
                    r->reason.empty() ? "not known" : r->reason);
  }
}

/// Names of the rows' files, in their order.
std::vector<std::string> files_of(const std::vector<ValidationRow>& rows) {
  std::vector<std::string> out;
  for (const ValidationRow& r : rows) {
    if (std::find(out.begin(), out.end(), r.file) == out.end()) out.push_back(r.file);
  }
  return out;
}

std::string stem_of(const std::string& file) { return file.substr(0, file.rfind(".json")); }

/// Parts of sources that no row covers, and rows without a prediction.
void left_out(std::string& out, const std::vector<ValidationRow>& rows) {
  out += "\n## Left out\n\nParts of the sources that no row holds, and rows without a prediction.\n\n";
  std::vector<std::string> lines;
  for (const ValidationRow& r : rows) {
    std::string line;
    if (!r.left_out.empty()) line = fmt::format("- {}: {}\n", stem_of(r.file), r.left_out);
    if (!r.error.empty())
      line = fmt::format("- {}, {} on {}: {}\n", stem_of(r.file), r.model, r.system, r.error);
    if (!line.empty() && std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(line);
  }
  for (const std::string& line : lines) out += line;
}

/// How many rows are not scored, and why.
std::string not_scored(const std::vector<ValidationRow>& rows) {
  const auto count = [&](bool (*is)(const ValidationRow&)) {
    return std::count_if(rows.begin(), rows.end(), [&](const ValidationRow& r) { return is(r); });
  };
  const auto doubtful = count([](const ValidationRow&r) { return !r.doubtful.empty(); }),
             gave = count([](const ValidationRow&r) { return !r.gives.empty(); });
  return fmt::format("{} rows are not scored: {} contradict their source, {} set a constant.\n",
                     doubtful + gave, doubtful, gave);
}

std::string mean_cell(const Errors& e) { return e.all.empty() ? "–" : percent(e.mean()); }

void source_table(std::string& out, const std::vector<ValidationRow>& rows) {
  out +=
      "\n## Sources\n\nErrors of all scored rows of each file in "
      "[calibration/data/published](calibration/data/published), which has the source of each\nfigure. "
      "`tandem validate --out VALIDATION.md` writes every row with its prediction to "
      "`calibration/validation/FILE.csv`.\n\n"
      "| file | source | speed-ups | mean | rates | mean |\n"
      "| --- | --- | ---: | ---: | ---: | ---: |\n";
  for (const std::string& file : files_of(rows)) {
    const auto here = [&](const ValidationRow& r) { return r.file == file; };
    const Errors s = speedup_errors(rows, here), t = rate_errors(rows, here);
    const auto first = std::find_if(rows.begin(), rows.end(), here);
    out += fmt::format("| [{0}](calibration/data/published/{0}.json) | {1} | {2} | {3} | {4} | {5} |\n",
                       stem_of(file), first->source, s.all.size(), mean_cell(s), t.all.size(), mean_cell(t));
  }
  out += "\n" + not_scored(rows);
}

/// Held-out rows by architecture, all precisions, models and numbers of nodes together.
void architecture_table(std::string& out, const std::vector<ValidationRow>& rows) {
  out +=
      "\n## By architecture\n\n![Predicted against published rates](calibration/validation/rates.png)\n\n"
      "Held-out rows of all precisions, models and numbers of nodes.\n\n"
      "| devices | speed-ups | bias | mean | median | inside | rates | bias | mean | median | inside |\n"
      "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n";
  std::vector<std::string> names;
  for (const RowGroup& g : row_groups(rows, true)) {
    if (names.empty() || names.back() != g.generation) names.push_back(g.generation);
  }
  const auto row = [&](const std::string& title, const std::string& name) {
    const auto is = [&](const ValidationRow& r) { return name.empty() || r.generation == name; };
    const Errors s = speedup_errors(rows, [&](const ValidationRow&r) { return r.held_out && is(r); }),
                 t = rate_errors(rows, [&](const ValidationRow&r) { return unseen_rate(r) && is(r); });
    out += fmt::format("| {} | {} | {} |\n", title, error_cells(s), error_cells(t));
  };
  for (const std::string& name : names) row(name, name);
  row("**all**", "");
}

/// Held-out sources with the largest mean errors.
void gaps_table(std::string& out, const std::vector<ValidationRow>& rows) {
  struct Gap {
    std::string file;
    Errors speedups, rates;
    double worst() const {
      return std::max(speedups.all.empty() ? 0 : speedups.mean(), rates.all.empty() ? 0 : rates.mean());
    }
  };
  std::vector<Gap> gaps;
  for (const std::string& file : files_of(rows)) {
    Gap gap{file, speedup_errors(rows, [&](const ValidationRow& r) { return r.file == file && r.held_out; }),
            rate_errors(rows, [&](const ValidationRow& r) { return r.file == file && unseen_rate(r); })};
    if (gap.speedups.all.size() + gap.rates.all.size() >= kLeastRows) gaps.push_back(std::move(gap));
  }
  std::stable_sort(gaps.begin(), gaps.end(),
                   [](const Gap& a, const Gap& b) { return a.worst() > b.worst(); });
  gaps.resize(std::min(gaps.size(), kGaps));
  out += fmt::format(
      "\n## Known gaps\n\nThe held-out sources with the largest mean errors, of at least {} rows. "
      "[Known weak spots](docs/accuracy.md#known-weak-spots)\nsays what is known of the reasons. {}\n"
      "| source | speed-ups | mean | rates | mean |\n| --- | ---: | ---: | ---: | ---: |\n",
      kLeastRows, not_scored(rows));
  for (const Gap& gap : gaps)
    out += fmt::format("| {} | {} | {} | {} | {} |\n", stem_of(gap.file), gap.speedups.all.size(),
                       mean_cell(gap.speedups), gap.rates.all.size(), mean_cell(gap.rates));
}

/// Column by column: its name, and its text for a row.
struct Column {
  const char* name;
  std::string (*text)(const ValidationRow&);
};

std::string figure(double value) { return value > 0 ? fmt::format("{:.6g}", value) : ""; }

const std::vector<Column>& columns() {
  using Row = const ValidationRow&;
  static const std::vector<Column> all{
      {"system", [](Row r) { return r.system; }},
      {"generation", [](Row r) { return r.generation; }},
      {"model", [](Row r) { return r.model; }},
      {"family", [](Row r) { return r.family; }},
      {"scheme", [](Row r) { return r.scheme; }},
      {"precision", [](Row r) { return r.precision; }},
      {"recipe", [](Row r) { return r.recipe; }},
      {"input", [](Row r) { return r.input; }},
      {"batch", [](Row r) { return std::to_string(r.batch); }},
      {"devices", [](Row r) { return std::to_string(r.devices); }},
      {"nodes", [](Row r) { return std::to_string(r.nodes); }},
      {"unit", [](Row r) { return r.unit; }},
      {"published", [](Row r) { return figure(r.published); }},
      {"predicted", [](Row r) { return r.relative ? "" : figure(r.rate.samples_per_second); }},
      {"low", [](Row r) { return r.relative ? "" : figure(r.rate.interval.low); }},
      {"high", [](Row r) { return r.relative ? "" : figure(r.rate.interval.high); }},
      {"error_percent", [](Row r) { return has_rate(r) ? fmt::format("{:.1f}", 100 * r.rate_error()) : ""; }},
      {"anchor", [](Row r) { return std::string(r.is_anchor ? "yes" : ""); }},
      {"anchored", [](Row r) { return figure(r.anchored); }},
      {"anchored_low", [](Row r) { return figure(r.low); }},
      {"anchored_high", [](Row r) { return figure(r.high); }},
      {"published_speedup", [](Row r) { return figure(r.published_speedup); }},
      {"predicted_speedup", [](Row r) { return figure(r.predicted_speedup); }},
      {"speedup_error_percent",
       [](Row r) { return has_speedup(r) ? fmt::format("{:.1f}", 100 * r.speedup_error()) : ""; }},
      {"nothing_set_on_it", [](Row r) { return std::string(r.held_out ? "yes" : ""); }},
      {"in_stock_curves", [](Row r) { return std::string(r.in_kernels ? "yes" : ""); }},
      {"fitted", [](Row r) { return r.fitted; }},
      {"gives", [](Row r) { return r.gives; }},
      {"doubtful", [](Row r) { return r.doubtful; }},
      {"no_prediction", [](Row r) { return r.error; }},
      {"reason", [](Row r) { return r.reason; }},
      {"note", [](Row r) { return r.note; }}};
  return all;
}

JsonWriter errors_json(const Errors& e) {
  return {{"rows", e.all.size()},
          {"bias", e.bias()},
          {"mean", e.mean()},
          {"median", e.quantile(0.5)},
          {"worst", e.quantile(1)},
          {"intervals", e.intervals},
          {"interval_coverage", e.coverage()}};
}

}  // namespace

std::string validation_markdown(const std::vector<ValidationRow>& rows) {
  std::string out;
  introduction(out);
  aims_table(out, rows);
  interval_table(out, rows);
  architecture_table(out, rows);
  gaps_table(out, rows);
  return out;
}

std::string rates_markdown(const std::vector<ValidationRow>& rows) {
  std::string out = "\n## By group\n";
  group_table(out, rows, true);
  group_table(out, rows, false);
  worst_table(out, rows);
  return out;
}

std::string sources_markdown(const std::vector<ValidationRow>& rows) {
  std::string out;
  source_table(out, rows);
  left_out(out, rows);
  return out;
}

std::string validation_csv(const std::vector<ValidationRow>& rows, const std::string& file) {
  std::string out;
  for (const Column& c : columns()) out += fmt::format("{}{}", out.empty() ? "" : ",", c.name);
  out += "\n";
  for (const ValidationRow& r : rows) {
    if (r.file != file) continue;
    std::string line;
    for (const Column& c : columns()) line += (&c == &columns().front() ? "" : ",") + csv_cell(c.text(r));
    out += line + "\n";
  }
  return out;
}

namespace {

JsonWriter row_json(const ValidationRow& r) {
  return {{"file", r.file},
          {"system", r.system},
          {"generation", r.generation},
          {"model", r.model},
          {"scheme", r.scheme},
          {"precision", r.precision},
          {"recipe", r.recipe},
          {"input", r.input},
          {"family", r.family},
          {"nodes", r.nodes},
          {"batch", r.batch},
          {"devices", r.devices},
          {"published", r.published},
          {"anchor", r.is_anchor},
          {"relative", r.relative},
          {"unanchored", r.rate.samples_per_second},
          {"rate_low", r.rate.interval.low},
          {"rate_high", r.rate.interval.high},
          {"anchored", r.anchored},
          {"published_speedup", r.published_speedup},
          {"predicted_speedup", r.predicted_speedup},
          {"low", r.low},
          {"high", r.high},
          {"held_out", r.held_out},
          {"in_stock_curves", r.in_kernels},
          {"fitted", r.fitted},
          {"gives", r.gives},
          {"doubtful", r.doubtful},
          {"reason", r.reason},
          {"error", r.error},
          {"note", r.note}};
}

}  // namespace

std::string validation_json(const std::vector<ValidationRow>& rows,
                            const std::vector<StalenessRow>& staleness) {
  JsonWriter doc = {{"schema", "tandem-validation-1"}};
  for (const Aim& a : aims(rows)) {
    doc["aims"].push_back({{"what", a.what},
                           {"rows", a.rows},
                           {"low", a.low},
                           {"high", a.high},
                           {"value", a.value},
                           {"met", a.met()}});
  }
  const auto summary = [&](const std::string& name, const RowFilter& filter) {
    const Errors s = speedup_errors(rows, filter), t = rate_errors(rows, filter);
    if (s.all.empty() && t.all.empty()) return;
    doc["summary"].push_back({{"rows", name}, {"speedups", errors_json(s)}, {"rates", errors_json(t)}});
  };
  summary("all", [](const ValidationRow&) { return true; });
  for (const std::string& file : files_of(rows))
    summary(file, [&](const ValidationRow& r) { return r.file == file; });
  for (const bool held_out : {true, false}) {
    for (const RowGroup& g : row_groups(rows, held_out)) {
      doc["groups"].push_back({{"nothing_set_on_it", held_out},
                               {"generation", g.generation},
                               {"precision", g.precision},
                               {"family", g.family},
                               {"several_nodes", g.several_nodes},
                               {"speedups", errors_json(g.speedups)},
                               {"rates", errors_json(g.rates)}});
    }
  }
  for (const ValidationRow& r : rows) {
    doc["rows"].push_back(row_json(r));
  }
  for (const StalenessRow& r : staleness) {
    doc["staleness"].push_back({{"name", r.name},
                                {"workers", r.workers},
                                {"gives", r.gives},
                                {"published_mean", r.published_mean},
                                {"predicted_mean", r.predicted_mean},
                                {"distance", r.distance}});
  }
  return doc.dump(2) + "\n";
}

}  // namespace tandem::calibration
