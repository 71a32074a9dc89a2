// SPDX-License-Identifier: Apache-2.0
#include "calibration/validate/validate_chances.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "answers/advise.h"
#include "calibration/validate/validation_statistics.h"

namespace tandem::calibration {

namespace {

/// What ran: a machine or a setting.
struct Contestant {
  std::string words;
  double published = 0;  ///< the mean of `rows`
  schemes::Report predicted;
  bool held_out = true;
  int64_t rows = 1;
};

std::optional<Contest> contest(const std::string& source, const std::string& model, const Contestant& a,
                               const Contestant& b) {
  if (a.published == b.published) return std::nullopt;
  const double probability = answers::probability_faster(a.predicted, b.predicted);
  const bool turned = probability < 0.5;
  const Contestant &first = turned ? b : a, &second = turned ? a : b;
  return Contest{source,
                 model,
                 first.words,
                 second.words,
                 turned ? 1 - probability : probability,
                 first.published / second.published,
                 1,
                 a.held_out && b.held_out};
}

void add_pairs(const std::string& source, const std::string& model, const std::vector<Contestant>& all,
               std::vector<Contest>& out) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = i + 1; j < all.size(); ++j) {
      if (auto pair = contest(source, model, all[i], all[j])) out.push_back(std::move(*pair));
    }
  }
}

schemes::Report report_of(const schemes::Report::Rate& rate) {
  schemes::Report out;
  out.rate = rate;
  return out;
}

/// Contests whose probability lies in [low, high).
struct Bin {
  int64_t contests = 0;
  double weight = 0, won = 0, said = 0;
  void add(const Contest& c) {
    ++contests;
    weight += c.weight;
    won += c.won() ? c.weight : 0;
    said += c.weight * c.probability;
  }
  double mean() const { return said / weight; }
  double share() const { return won / weight; }
};

/// By probability: 50 % to 60 %, ... 90 % to 99 %, and above.
std::array<Bin, 6> bins_of(const std::vector<Contest>& contests) {
  std::array<Bin, 6> out{};
  for (const Contest& c : contests)
    out[c.probability >= 0.99 ? 5 : std::min<std::size_t>(4, (c.probability - 0.5) * 10)].add(c);
  return out;
}

std::vector<Contest> held_out(const std::vector<Contest>& all) {
  std::vector<Contest> out;
  std::copy_if(all.begin(), all.end(), std::back_inserter(out), [](const Contest& c) { return c.held_out; });
  return out;
}

std::string cells(const Bin& bin) {
  if (bin.contests == 0) return " 0 | – | – |";
  return fmt::format(" {} | {:.0f} % | {:.0f} % |", bin.contests, 100 * bin.mean(), 100 * bin.share());
}

/// Those that were wrong and surest, the most surprising first.
std::string surprises_text(std::vector<Contest> all) {
  constexpr std::size_t kMost = 10;
  std::erase_if(all, [](const Contest& c) { return c.won(); });
  std::stable_sort(all.begin(), all.end(),
                   [](const Contest& a, const Contest& b) { return a.probability > b.probability; });
  if (all.size() > kMost) all.resize(kMost);
  std::string out =
      "\nSurest and wrong, of machines:\n\n| model | first | second | said | published, first over second |\n"
      "|---|---|---|---:|---:|\n";
  for (const Contest& c : all)
    out += fmt::format("| {} | {} | {} | {:.2f} % | {:.2f} |\n", c.model, c.first, c.second,
                       100 * c.probability, c.ratio);
  return out;
}

Bin all_of(const std::vector<Contest>& contests) {
  Bin out;
  for (const Contest& c : contests) out.add(c);
  return out;
}

}  // namespace

std::vector<Contest> machine_contests(const std::vector<ValidationRow>& rows) {
  std::map<std::string, std::size_t> known;
  std::vector<std::pair<const ValidationRow*, std::vector<Contestant>>> groups;
  for (const ValidationRow& r : rows) {
    if (!counts(r) || r.relative || r.rate_assumed || !(r.rate.samples_per_second > 0)) continue;
    const std::string key = fmt::format("{}|{}|{}|{}|{}|{}|{}|{}", r.source, r.model, r.scheme, r.precision,
                                        r.recipe, r.input, r.devices, r.batch);
    const auto [at, fresh] = known.emplace(key, groups.size());
    if (fresh) groups.push_back({&r, {}});
    std::vector<Contestant>& all = groups[at->second].second;
    const auto same =
        std::find_if(all.begin(), all.end(), [&](const Contestant& c) { return c.words == r.system; });
    if (same == all.end()) {
      all.push_back({r.system, r.published, report_of(r.rate), unseen_rate(r)});
      continue;
    }
    ++same->rows;
    same->published += (r.published - same->published) / static_cast<double>(same->rows);
    same->held_out = same->held_out && unseen_rate(r);
  }
  std::vector<Contest> out;
  for (const auto& [row, all] : groups) add_pairs(row->source, row->model, all, out);
  return out;
}

std::vector<Contest> setting_contests(const std::vector<RegretGrid>& grids) {
  std::vector<Contest> out;
  for (const RegretGrid& g : grids) {
    std::vector<Contestant> all;
    for (const RegretGrid::Setting& s : g.settings)
      all.push_back({s.words, s.measured, report_of(s.rate), g.file.starts_with("held_out_")});
    const std::size_t before = out.size();
    add_pairs(g.file.substr(0, g.file.rfind('.')), g.model, all, out);
    for (std::size_t i = before; i < out.size(); ++i)
      out[i].weight = 1 / static_cast<double>(out.size() - before);
  }
  return out;
}

double brier_score(const std::vector<Contest>& contests) {
  double sum = 0, weight = 0;
  for (const Contest& c : contests) {
    const double off = c.probability - (c.won() ? 1 : 0);
    sum += c.weight * off * off;
    weight += c.weight;
  }
  return contests.empty() ? 0 : sum / weight;
}

std::string chances_markdown(const std::vector<Contest>& machines, const std::vector<Contest>& settings) {
  constexpr std::array<const char*, 6> kBins = {"50 % to 60 %", "60 % to 70 %", "70 % to 80 %",
                                                "80 % to 90 %", "90 % to 99 %", "99 % and more"};
  const std::vector<Contest> unseen = held_out(machines);
  const std::array<const std::vector<Contest>*, 3> kinds = {&unseen, &machines, &settings};
  std::string out =
      "\n## Probabilities\n\nWhether the probability that one is faster than the other holds, as `advise` "
      "and `plan` give it: errors that both predictions have cancel. Pairs of machines are published rates "
      "of one source that differ in the machine alone; pairs of settings are all pairs of a grid above, "
      "where "
      "each grid counts once. "
      "\"Said\" is the mean probability of the one that is predicted faster, \"was\" how often it was. Pairs "
      "share rows, so that they are far fewer than independent ones.\n\n"
      "| probability | machines, held out | said | was | machines, all | said | was | settings | said | was "
      "|\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n";
  std::array<std::array<Bin, 6>, 3> bins{};
  for (std::size_t k = 0; k < kinds.size(); ++k) bins[k] = bins_of(*kinds[k]);
  for (std::size_t i = 0; i < kBins.size(); ++i) {
    out += fmt::format("| {} |", kBins[i]);
    for (const auto& kind : bins) out += cells(kind[i]);
    out += "\n";
  }
  out += "| all |";
  for (const std::vector<Contest>* kind : kinds) out += cells(all_of(*kind));
  out += fmt::format(
      "\n\nBrier score (the mean squared difference of probability and outcome; 0.25 without knowledge): "
      "{:.3f} over pairs of machines held out, {:.3f} over all, {:.3f} over pairs of settings.\n\n"
      "Machines by source:\n\n| source | pairs | said | was | Brier score |\n|---|---:|---:|---:|---:|\n",
      brier_score(unseen), brier_score(machines), brier_score(settings));
  std::map<std::string, std::vector<Contest>> sources;
  for (const Contest& c : machines) sources[c.source].push_back(c);
  for (const auto& [source, own] : sources)
    out += fmt::format("| {} |{} {:.3f} |\n", source, cells(all_of(own)), brier_score(own));
  return out + surprises_text(machines);
}

}  // namespace tandem::calibration
