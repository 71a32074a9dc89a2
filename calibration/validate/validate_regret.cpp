// SPDX-License-Identifier: Apache-2.0
#include "calibration/validate/validate_regret.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace tandem::calibration {

namespace {

constexpr double kGood = 0.05;
constexpr std::size_t kMostShown = 10;

using RateOf = double RegretGrid::Configuration::*;

const RegretGrid::Configuration& fastest(const std::vector<RegretGrid::Configuration>& all, RateOf rate) {
  return *std::max_element(all.begin(), all.end(),
                           [&](const auto& a, const auto& b) { return a.*rate < b.*rate; });
}

/// Grids by what their configurations share, in the order of appearance.
class Grids {
 public:
  void add(const RegretGrid& question, RegretGrid::Configuration configuration) {
    const std::string key = fmt::format("{}|{}|{}|{}|{}", question.file, question.system, question.model,
                                        question.precision, question.devices);
    const auto [at, fresh] = known_.emplace(key, all_.size());
    if (fresh) all_.push_back(question);
    auto& known = all_[at->second].configurations;
    const auto same = std::find_if(known.begin(), known.end(),
                                   [&](const auto& c) { return c.words == configuration.words; });
    if (same == known.end()) return known.push_back(std::move(configuration));
    ++same->rows;
    same->measured += (configuration.measured - same->measured) / static_cast<double>(same->rows);
  }
  std::vector<RegretGrid> taken() {
    std::erase_if(all_, [](const RegretGrid& g) { return g.configurations.size() < 2; });
    return std::move(all_);
  }

 private:
  std::map<std::string, std::size_t> known_;
  std::vector<RegretGrid> all_;
};

std::string stem(const std::string& file) { return file.substr(0, file.rfind('.')); }

double mean_of(const std::vector<const RegretGrid*>& grids, double (RegretGrid::*value)() const) {
  double sum = 0;
  for (const RegretGrid* g : grids) sum += (g->*value)();
  return grids.empty() ? 0 : sum / static_cast<double>(grids.size());
}

std::string file_row(const std::string& name, const std::vector<const RegretGrid*>& grids) {
  std::size_t configurations = 0, good = 0;
  double worst = 0;
  for (const RegretGrid* g : grids) {
    configurations += g->configurations.size();
    good += g->regret() <= kGood ? 1 : 0;
    worst = std::max(worst, g->regret());
  }
  return fmt::format("| {} | {} | {} | {:.1f} % | {:.0f} % | {:.1f} % | {:.1f} % |\n", name, grids.size(),
                     configurations, 100 * mean_of(grids, &RegretGrid::regret),
                     100 * static_cast<double>(good) / static_cast<double>(grids.size()), 100 * worst,
                     100 * mean_of(grids, &RegretGrid::regret_of_chance));
}

}  // namespace

const RegretGrid::Configuration& RegretGrid::pick() const {
  return fastest(configurations, &Configuration::predicted);
}

const RegretGrid::Configuration& RegretGrid::best() const {
  return fastest(configurations, &Configuration::measured);
}

double RegretGrid::regret() const { return 1 - pick().measured / best().measured; }

double RegretGrid::regret_of_chance() const {
  double sum = 0;
  for (const Configuration& c : configurations) sum += c.measured;
  return 1 - sum / static_cast<double>(configurations.size()) / best().measured;
}

std::vector<RegretGrid> regret_grids(const std::vector<ValidationRow>& rows,
                                     const std::vector<SplitRow>& splits) {
  Grids grids;
  for (const ValidationRow& r : rows) {
    if (!r.doubtful.empty() || !r.error.empty() || r.relative || !(r.unanchored > 0)) continue;
    // The source of a figure is not a choice: one device runs without a scheme.
    if (r.devices == 1) continue;
    const RegretGrid question{r.file, r.system, r.model, r.precision + " " + r.input, r.devices, {}};
    grids.add(question, {fmt::format("{}, batch {}", r.scheme, r.batch), r.published, r.unanchored});
  }
  for (const SplitRow& r : splits) {
    if (!r.doubtful.empty() || !r.failure.empty()) continue;
    const RegretGrid question{r.file, r.system, r.model, r.precision, r.devices, {}};
    grids.add(question, {fmt::format("{}, batch {}, recompute {}", r.scheme, r.batch, r.recompute.text()),
                         r.published, r.predicted});
  }
  return grids.taken();
}

std::string regret_markdown(const std::vector<RegretGrid>& grids) {
  std::string out =
      "\n## Regret\n\nWhat choosing by predictions would have cost. A grid holds all measurements of one "
      "model "
      "on the same devices in one precision: schemes, splits, micro-batches. Regret is how much slower the "
      "configuration that is predicted fastest was than the fastest one; chance is its mean for one drawn "
      "at random. Rates are without anchor. Nothing was fitted to regret, but some rows of the grids were "
      "fitted to. Every grid: `tandem validate --regret csv`.\n\n"
      "| file | grids | configurations | regret | at most 5 % | worst | chance "
      "|\n|---|---:|---:|---:|---:|---:|---:|\n";
  std::map<std::string, std::vector<const RegretGrid*>> files;
  std::vector<const RegretGrid*> all;
  for (const RegretGrid& g : grids) {
    files[stem(g.file)].push_back(&g);
    all.push_back(&g);
  }
  if (all.empty()) return out;
  for (const auto& [file, own] : files) out += file_row(file, own);
  out += file_row("all", all);
  std::stable_sort(all.begin(), all.end(),
                   [](const RegretGrid* a, const RegretGrid* b) { return a->regret() > b->regret(); });
  out +=
      "\nMost regret:\n\n| file | model | devices | picked | measured | best | measured | predicted | regret "
      "|\n"
      "|---|---|---:|---|---:|---|---:|---:|---:|\n";
  for (std::size_t i = 0; i < std::min(kMostShown, all.size()); ++i) {
    const RegretGrid& g = *all[i];
    out += fmt::format("| {} | {} | {} | {} | {:.4g}/s | {} | {:.4g}/s | {:.4g}/s | {:.1f} % |\n",
                       stem(g.file), g.model, g.devices, g.pick().words, g.pick().measured, g.best().words,
                       g.best().measured, g.best().predicted, 100 * g.regret());
  }
  return out;
}

std::string regret_csv(const std::vector<RegretGrid>& grids) {
  std::string out =
      "file,system,model,precision,devices,configurations,picked,picked_measured,picked_predicted,best,"
      "best_measured,best_predicted,regret_percent,chance_percent\n";
  for (const RegretGrid& g : grids) {
    out += fmt::format("{},\"{}\",\"{}\",{},{},{},\"{}\",{:.6g},{:.6g},\"{}\",{:.6g},{:.6g},{:.2f},{:.2f}\n",
                       g.file, g.system, g.model, g.precision, g.devices, g.configurations.size(),
                       g.pick().words, g.pick().measured, g.pick().predicted, g.best().words,
                       g.best().measured, g.best().predicted, 100 * g.regret(), 100 * g.regret_of_chance());
  }
  return out;
}

}  // namespace tandem::calibration
