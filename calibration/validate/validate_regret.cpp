// SPDX-License-Identifier: Apache-2.0
#include "calibration/validate/validate_regret.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "calibration/validate/validation_statistics.h"

namespace tandem::calibration {

namespace {

constexpr double kGoodRegret = 0.05, kWorstRegret = 0.15;
constexpr std::size_t kMostShown = 10;

using Grids = std::vector<const RegretGrid*>;

/// Grids by what their settings share, in the order of appearance.
class GridsByQuestion {
 public:
  void add(const RegretGrid& question, RegretGrid::Setting setting) {
    const std::string key = fmt::format("{}|{}|{}|{}|{}", question.file, question.system, question.model,
                                        question.precision, question.devices);
    const auto [at, fresh] = known_.emplace(key, all_.size());
    if (fresh) all_.push_back(question);
    auto& known = all_[at->second].settings;
    const auto same =
        std::find_if(known.begin(), known.end(), [&](const auto& s) { return s.words == setting.words; });
    if (same == known.end()) return known.push_back(std::move(setting));
    ++same->rows;
    same->measured += (setting.measured - same->measured) / static_cast<double>(same->rows);
  }
  std::vector<RegretGrid> taken() {
    std::erase_if(all_, [](const RegretGrid& g) { return g.settings.size() < 2; });
    for (RegretGrid& g : all_)
      std::stable_sort(g.settings.begin(), g.settings.end(),
                       [](const auto& a, const auto& b) { return a.predicted() > b.predicted(); });
    return std::move(all_);
  }

 private:
  std::map<std::string, std::size_t> known_;
  std::vector<RegretGrid> all_;
};

std::string stem(const std::string& file) { return file.substr(0, file.rfind('.')); }

/// What grids lose, each as much as any other.
struct Losses {
  std::size_t settings = 0, good = 0;
  double mean = 0, worst = 0, of_five = 0, chance = 0;
};

Losses losses(const Grids& grids) {
  Losses out;
  const double share = 1 / static_cast<double>(grids.size());
  for (const RegretGrid* g : grids) {
    out.settings += g->settings.size();
    out.good += g->regret() <= kGoodRegret ? 1 : 0;
    out.mean += share * g->regret();
    out.worst = std::max(out.worst, g->regret());
    out.of_five += share * g->regret_of_first(kFirstFive);
    out.chance += share * g->regret_of_chance();
  }
  return out;
}

std::string losses_row(const std::string& name, const Grids& grids) {
  if (grids.empty()) return "";
  const Losses l = losses(grids);
  return fmt::format("| {} | {} | {} | {:.1f} % | {:.0f} % | {:.1f} % | {:.1f} % | {:.1f} % |\n", name,
                     grids.size(), l.settings, 100 * l.mean,
                     100 * static_cast<double>(l.good) / static_cast<double>(grids.size()), 100 * l.worst,
                     100 * l.of_five, 100 * l.chance);
}

Grids with_more_settings(const Grids& grids, std::size_t than) {
  Grids out;
  for (const RegretGrid* g : grids) {
    if (g->settings.size() > than) out.push_back(g);
  }
  return out;
}

/// How measuring the first five instead of one pays, and whether the pick's rate keeps its promise.
std::string picks_text(const Grids& all) {
  Errors picks, others;  // others: all settings of the same grids, each grid as much as any other
  double promised = 0, kept = 0;
  for (const RegretGrid* g : all) {
    picks.all.push_back(g->pick().predicted() / g->pick().measured - 1);
    double mean = 0;
    for (const RegretGrid::Setting& s : g->settings) mean += s.predicted() / s.measured - 1;
    others.all.push_back(mean / static_cast<double>(g->settings.size()));
    const RegretGrid::Setting& second = g->settings[1];
    promised += std::log(g->pick().predicted() / second.predicted());
    kept += std::log(g->pick().measured / second.measured);
  }
  const auto grids = static_cast<double>(all.size());
  return fmt::format(
      "\nWhat is picked because its prediction is high tends to be predicted too high (the optimiser's "
      "curse; Smith and Winkler 2006). The rate of the pick is predicted {:+.1f} % off on average, that of "
      "all settings of a grid {:+.1f} %. The pick is predicted {:.1f} % faster than the second, and was "
      "{:.1f} % faster (geometric means).\n",
      100 * picks.bias(), 100 * others.bias(), 100 * std::expm1(promised / grids),
      100 * std::expm1(kept / grids));
}

std::string aims_text(const Grids& all) {
  const Losses l = losses(all);
  const auto verdict = [](double value, double aim) { return value <= aim ? "met" : "not met"; };
  return fmt::format(
      "\n| what | aim | value | |\n|---|---:|---:|---|\n"
      "| regret of the pick, mean | at most {:.0f} % | {:.1f} % | {} |\n"
      "| regret of the pick, worst | at most {:.0f} % | {:.1f} % | {} |\n",
      100 * kGoodRegret, 100 * l.mean, verdict(l.mean, kGoodRegret), 100 * kWorstRegret, 100 * l.worst,
      verdict(l.worst, kWorstRegret));
}

std::string largest_text(Grids all) {
  std::stable_sort(all.begin(), all.end(),
                   [](const RegretGrid* a, const RegretGrid* b) { return a->regret() > b->regret(); });
  std::string out =
      "\nMost regret:\n\n| file | model | devices | picked | measured | predicted | best | measured | "
      "predicted | regret | of five |\n"
      "|---|---|---:|---|---:|---:|---|---:|---:|---:|---:|\n";
  for (std::size_t i = 0; i < std::min(kMostShown, all.size()); ++i) {
    const RegretGrid& g = *all[i];
    out += fmt::format(
        "| {} | {} | {} | {} | {:.4g}/s | {:.4g}/s | {} | {:.4g}/s | {:.4g}/s | {:.1f} % | "
        "{:.1f} % |\n",
        stem(g.file), g.model, g.devices, g.pick().words, g.pick().measured, g.pick().predicted(),
        g.best().words, g.best().measured, g.best().predicted(), 100 * g.regret(),
        100 * g.regret_of_first(kFirstFive));
  }
  return out;
}

}  // namespace

const RegretGrid::Setting& RegretGrid::best() const {
  return *std::max_element(settings.begin(), settings.end(),
                           [](const Setting& a, const Setting& b) { return a.measured < b.measured; });
}

double RegretGrid::regret_of_first(std::size_t count) const {
  double most = 0;
  for (std::size_t i = 0; i < std::min(count, settings.size()); ++i)
    most = std::max(most, settings[i].measured);
  return 1 - most / best().measured;
}

double RegretGrid::regret_of_chance() const {
  double sum = 0;
  for (const Setting& s : settings) sum += s.measured;
  return 1 - sum / static_cast<double>(settings.size()) / best().measured;
}

std::vector<RegretGrid> regret_grids(const std::vector<ValidationRow>& rows,
                                     const std::vector<SplitRow>& splits) {
  GridsByQuestion grids;
  for (const ValidationRow& r : rows) {
    if (!r.doubtful.empty() || !r.error.empty() || r.relative || !(r.rate.samples_per_second > 0)) continue;
    // The source of a figure is not a choice: one device runs without a scheme.
    if (r.devices == 1) continue;
    const RegretGrid question{r.file, r.system, r.model, r.precision + " " + r.input, r.devices, {}};
    grids.add(question, {fmt::format("{}{}, batch {}", r.scheme,
                                     r.recipe.empty() ? "" : fmt::format(" with {}", r.recipe), r.batch),
                         r.published, r.rate});
  }
  for (const SplitRow& r : splits) {
    if (!r.doubtful.empty() || !r.failure.empty()) continue;
    const RegretGrid question{r.file, r.system, r.model, r.precision, r.devices, {}};
    schemes::Report::Rate rate;
    rate.samples_per_second = r.predicted;
    rate.interval = {r.low, r.high};
    rate.errors = r.errors;
    grids.add(question, {fmt::format("{}, batch {}, recompute {}", r.scheme, r.batch, r.recompute.text()),
                         r.published, rate});
  }
  return grids.taken();
}

std::string regret_markdown(const std::vector<RegretGrid>& grids) {
  std::string out =
      "\n## Regret\n\nWhat choosing by predictions would have cost. A grid holds all measurements of one "
      "model on the same devices in one precision: schemes, splits, micro-batches, recomputation. Regret is "
      "how much slower the setting that is predicted fastest was than the fastest one; \"first five\" is "
      "how much slower the best of the five predicted fastest was, chance the mean of one drawn at random. "
      "Rates are without anchor. Nothing was fitted to regret, but some rows of the grids were fitted to. "
      "Every grid: `tandem validate --regret csv`.\n";
  Grids all;
  for (const RegretGrid& g : grids) all.push_back(&g);
  if (all.empty()) return out;
  std::map<std::string, Grids> files;
  for (const RegretGrid* g : all) files[stem(g->file)].push_back(g);
  out += aims_text(all) +
         "\n| file | grids | settings | regret | at most 5 % | worst | first five | chance "
         "|\n|---|---:|---:|---:|---:|---:|---:|---:|\n";
  for (const auto& [file, own] : files) out += losses_row(file, own);
  out += losses_row("all", all) +
         losses_row("of more than five settings", with_more_settings(all, kFirstFive)) +
         losses_row("of more than 20 settings", with_more_settings(all, 20));
  return out + picks_text(all) + largest_text(all);
}

std::string regret_csv(const std::vector<RegretGrid>& grids) {
  std::string out =
      "file,system,model,precision,devices,settings,picked,picked_measured,picked_predicted,best,"
      "best_measured,best_predicted,regret_percent,first_five_percent,chance_percent\n";
  for (const RegretGrid& g : grids) {
    out += fmt::format(
        "{},\"{}\",\"{}\",{},{},{},\"{}\",{:.6g},{:.6g},\"{}\",{:.6g},{:.6g},{:.2f},{:.2f},{:.2f}\n", g.file,
        g.system, g.model, g.precision, g.devices, g.settings.size(), g.pick().words, g.pick().measured,
        g.pick().predicted(), g.best().words, g.best().measured, g.best().predicted(), 100 * g.regret(),
        100 * g.regret_of_first(kFirstFive), 100 * g.regret_of_chance());
  }
  return out;
}

}  // namespace tandem::calibration
