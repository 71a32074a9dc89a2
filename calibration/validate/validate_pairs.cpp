// SPDX-License-Identifier: Apache-2.0
#include "calibration/validate/validate_pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/data.h"
#include "base/json.h"
#include "calibration/validate/asking.h"
#include "calibration/validate/series.h"
#include "sim/simulate.h"

namespace tandem::calibration {

namespace {

/// Keys that two series of a pair share.
constexpr const char* kShared[] = {"model", "scheme", "precision", "batch", "optimizer", "recipe", "input"};

/// The runs that two series share.
void add_runs(const Json& pair, const Json& plain, const Json& changed, std::vector<PairRow>& rows) {
  const auto published = values_of(plain), published_changed = values_of(changed);
  const Question q = question_of(plain, {{"batch", std::to_string(plain.at("batch").as_int(1, 1'000'000))},
                                         {"input", plain.text("input", "synthetic")}});
  System::Sets sets;
  for (const auto& [name, value] : pair.at("change").members()) sets.emplace_back(name, value.as_text());
  const System& a = q.system;
  const System b = a.with(sets);
  Request p = q.request(1);
  p.check_memory = false;
  const auto& [fewest, rate] = *published.begin();
  p.anchor = Anchor{rate, fewest, p.job.batch, &a, nullptr};
  for (const auto& [devices, value] : published_changed) {
    const auto own = published.find(devices);
    if (own == published.end() || devices <= fewest) continue;
    p.devices = devices;
    p.system = &a;
    const Report before = simulate_rate(p);
    p.system = &b;
    const Report after = simulate_rate(p);
    rows.push_back({pair.at("what").as_text(), a.name(), changed.at("system").as_text(), q.graph.name(),
                    q.scheme.name, plain.text("precision", "fp32"), p.job.batch, devices, value / own->second,
                    after.rate.samples_per_second / before.rate.samples_per_second,
                    ratio_interval(before, after)});
  }
}

}  // namespace

std::vector<PairRow> validate_pairs() {
  const Json document = Json::load(data_root() + "/calibration/data/pairs.json");
  document.only({"note", "pairs"});
  std::vector<PairRow> rows;
  for (const Json& pair : document.at("pairs").items()) {
    pair.only({"table", "plain", "changed", "change", "what"});
    const Json& name = pair.at("table");
    const Json table =
        Json::load(find_data("calibration/data/published", "published table", name.as_text(), name.place()));
    const auto of = [&](const char* side, const Json& series) {
      return series.at("system").as_text() == pair.at(side).as_text();
    };
    const std::size_t before = rows.size();
    for (const Json& plain : table.at("series").items()) {
      if (!of("plain", plain)) continue;
      for (const Json& changed : table.at("series").items()) {
        if (of("changed", changed) && agree(plain, changed, kShared)) add_runs(pair, plain, changed, rows);
      }
    }
    if (rows.size() == before) pair.fail("no run of this table is on both systems");
  }
  return rows;
}

PairSums sum_pairs(const std::vector<PairRow>& rows, const std::string& plain) {
  PairSums out;
  const auto effect = [](double ratio) { return std::abs(ratio - 1) >= PairSums::kEffect; };
  for (const PairRow& r : rows) {
    if (!plain.empty() && r.plain != plain) continue;
    ++out.rows;
    out.error += std::abs(r.predicted / r.published - 1);
    out.error_of_one += std::abs(1 / r.published - 1);
    if (r.published >= r.interval.low && r.published <= r.interval.high) ++out.inside;
    const double part = (r.predicted - 1) / (r.published - 1);
    if (effect(r.published)) {
      ++out.effects;
      if (part >= 0.5 && part <= 2) ++out.found;
    } else if (effect(r.predicted)) {
      ++out.false_alarms;
    }
  }
  if (out.rows > 0) out.error /= static_cast<double>(out.rows);
  if (out.rows > 0) out.error_of_one /= static_cast<double>(out.rows);
  return out;
}

std::string pairs_markdown(const std::vector<PairRow>& rows) {
  std::string out = fmt::format(
      "\n## Pairs\n\nBoards that differ in one thing ([pairs.json](calibration/data/pairs.json)): the ratio "
      "of "
      "their rates, published against predicted, both\npredictions with one anchor, the plain board's rate "
      "on "
      "its fewest devices. An effect is a published difference of {:.0f} % and more;\nit is found where the "
      "prediction has its sign and is within a factor of two. A false alarm is a predicted effect where none "
      "was\npublished. The last column is the error of predicting no difference.\n\n"
      "| boards | runs | effects | found | false alarms | inside 90 % | ratio error | no difference |\n"
      "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
      100 * PairSums::kEffect);
  std::vector<std::pair<std::string, std::string>> boards;
  for (const PairRow& r : rows) {
    std::pair<std::string, std::string> own{r.plain, fmt::format("{}, {}", r.changed, r.what)};
    if (std::find(boards.begin(), boards.end(), own) == boards.end()) boards.push_back(std::move(own));
  }
  boards.emplace_back("", "all");
  for (const auto& [plain, name] : boards) {
    const PairSums s = sum_pairs(rows, plain);
    out += fmt::format("| {} | {} | {} | {} | {} | {:.0f} % | {:.2f} % | {:.2f} % |\n", name, s.rows,
                       s.effects, s.found, s.false_alarms,
                       s.rows > 0 ? 100.0 * static_cast<double>(s.inside) / static_cast<double>(s.rows) : 0.0,
                       100 * s.error, 100 * s.error_of_one);
  }
  out +=
      "\nEvery run with an effect, published or predicted:\n\n"
      "| boards | model | precision | devices | published | predicted | 90 % interval |\n"
      "| --- | --- | --- | ---: | ---: | ---: | ---: |\n";
  for (const PairRow& r : rows) {
    if (std::max(std::abs(r.published - 1), std::abs(r.predicted - 1)) < PairSums::kEffect) continue;
    out += fmt::format("| {} | {} | {} | {} | {:+.1f} % | {:+.1f} % | {:+.1f} .. {:+.1f} % |\n", r.changed,
                       r.model, r.precision, r.devices, 100 * (r.published - 1), 100 * (r.predicted - 1),
                       100 * (r.interval.low - 1), 100 * (r.interval.high - 1));
  }
  return out;
}

std::string pairs_csv(const std::vector<PairRow>& rows) {
  std::string out =
      "what,plain,changed,model,scheme,precision,batch,devices,published_ratio,predicted_ratio,low,high\n";
  for (const PairRow& r : rows)
    out += fmt::format("{},{},{},{},{},{},{},{},{:.6g},{:.6g},{:.6g},{:.6g}\n", r.what, r.plain, r.changed,
                       r.model, r.scheme, r.precision, r.batch, r.devices, r.published, r.predicted,
                       r.interval.low, r.interval.high);
  return out;
}

}  // namespace tandem::calibration
