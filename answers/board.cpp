// SPDX-License-Identifier: Apache-2.0
#include "answers/board.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "answers/elasticity.h"
#include "answers/labels.h"
#include "sim/capacity.h"

namespace tandem::answers {

namespace {

constexpr int64_t kMostBatch = 8192;
constexpr std::size_t kMostChoices = 70;  // 4 of 8 devices
constexpr double kSameRate = 0.005;

std::string percent(double gain) { return fmt::format("{:+.1f} %", 100 * gain); }

/// samples/s with that many samples per device; nothing if they do not fit.
std::optional<double> rate_at(const Question& q, int64_t devices, int64_t batch) {
  Request p = request_on(q, q.system, devices);
  p.job.batch = batch;
  if (!memory_on(p, devices).fits()) return std::nullopt;
  return throughput(p);
}

/// All choices of `n` of `all` numbers, in order.
std::vector<std::vector<int64_t>> choices(int64_t all, int64_t n) {
  std::vector<std::vector<int64_t>> out;
  std::vector<int64_t> now(static_cast<std::size_t>(n));
  for (int64_t i = 0; i < n; ++i) now[static_cast<std::size_t>(i)] = i;
  while (out.size() <= kMostChoices) {
    out.push_back(now);
    int64_t i = n - 1;
    while (i >= 0 && now[static_cast<std::size_t>(i)] == all - n + i) --i;
    if (i < 0) break;
    ++now[static_cast<std::size_t>(i)];
    for (int64_t j = i + 1; j < n; ++j)
      now[static_cast<std::size_t>(j)] = now[static_cast<std::size_t>(j - 1)] + 1;
  }
  return out;
}

/// The links between the devices of a choice: choices with the same links are equal.
std::string crossed(const System& system, const std::vector<int64_t>& devices) {
  std::map<LinkId, int> uses;
  int staged = 0;
  for (const int64_t a : devices) {
    for (const int64_t b : devices) {
      if (a == b) continue;
      const Route r = system.route(system.accelerator(a), system.accelerator(b));
      staged += r.staged;
      for (const LinkId link : r.links) ++uses[link];
    }
  }
  std::vector<std::string> all;
  for (const auto& [link, count] : uses)
    all.push_back(fmt::format("{}:{:.0f}:{}", system.link_kind(link), system.usable(link), count));
  std::sort(all.begin(), all.end());
  return fmt::format("{} {}", staged, fmt::join(all, " "));
}

}  // namespace

std::optional<Worth::At> Worth::largest() const {
  std::optional<At> out;
  for (const At& a : at) {
    if (std::abs(a.gain) >= kWorth) out = a;
  }
  return out;
}

Worth worth_of(const ReportPair& pair) {
  Worth out;
  if (pair.asked_a == nullptr || pair.asked_b == nullptr || !pair.a.fits || !pair.b.fits) return out;
  for (const Question* q : {pair.asked_a, pair.asked_b})
    if (!quick_to_vary(*q, pair.a) || !quick_to_vary(*q, pair.b)) return out;
  for (int64_t batch = 1; batch <= kMostBatch; batch *= 2) {
    const auto a = rate_at(*pair.asked_a, pair.a.setup.devices, batch);
    const auto b = a ? rate_at(*pair.asked_b, pair.b.setup.devices, batch) : std::nullopt;
    if (!b) break;
    out.at.push_back({batch, *b / *a - 1});
  }
  return out;
}

std::string worth_text(const ReportPair& pair, const Worth& worth) {
  if (worth.at.empty()) return "";
  const std::string what = fmt::format("{} on {} device{}", report_input(pair.b, "model"),
                                       pair.b.setup.devices, pair.b.setup.devices == 1 ? "" : "s");
  const std::string unit = pair.asked_b->graph.sample().unit + " per device";
  const auto most = std::max_element(worth.at.begin(), worth.at.end(), [](const auto& x, const auto& y) {
    return std::abs(x.gain) < std::abs(y.gain);
  });
  const auto largest = worth.largest();
  const int64_t last = worth.at.back().batch;
  if (!largest)
    return fmt::format("{}: less than {:.0f} % with 1 to {} {} (most: {} with {})", what, 100 * kWorth, last,
                       unit, percent(most->gain), most->batch);
  const char* verb = largest->gain > 0 ? "gains" : "loses";
  if (largest->batch == last)
    return fmt::format("{}: B {} {:.0f} % and more up to {} {}, the most that fits or was tried ({})", what,
                       verb, 100 * kWorth, last, unit, percent(largest->gain));
  const auto next = std::find_if(worth.at.begin(), worth.at.end(),
                                 [&](const auto& at) { return at.batch > largest->batch; });
  return fmt::format("{}: B {} {:.0f} % and more up to {} {} ({}), less from {} on ({})", what, verb,
                     100 * kWorth, largest->batch, unit, percent(largest->gain), next->batch,
                     percent(next->gain));
}

std::string worth_by_model(const std::vector<ReportPair>& pairs) {
  std::vector<std::pair<double, const ReportPair*>> gains;
  std::set<std::string> models;
  for (const ReportPair& pair : pairs) {
    if (!pair.a.fits || !pair.b.fits) continue;
    models.insert(report_input(pair.b, "model"));
    gains.emplace_back(pair.b.rate.samples_per_second / pair.a.rate.samples_per_second - 1, &pair);
  }
  if (models.size() < 2) return "";
  std::stable_sort(gains.begin(), gains.end(),
                   [](const auto& x, const auto& y) { return std::abs(x.first) > std::abs(y.first); });
  std::vector<std::string> much, little;
  for (const auto& [gain, pair] : gains)
    (std::abs(gain) >= kWorth ? much : little)
        .push_back(fmt::format("{} on {} ({})", report_input(pair->b, "model"), pair->b.setup.devices,
                               percent(gain)));
  const auto listed = [](const std::vector<std::string>& all) {
    return all.empty() ? std::string("nothing") : fmt::format("{}", fmt::join(all, ", "));
  };
  return fmt::format("At {}: {:.0f} % and more for {}; less for {}", report_batch(gains.front().second->b),
                     100 * kWorth, listed(much), listed(little));
}

std::optional<Placements> placements(const Question& q, const Report& report) {
  const int64_t n = report.setup.devices;
  if (!report.fits || n < 2 || !quick_to_vary(q, report)) return std::nullopt;
  auto sets = q.sets;
  std::string used;
  for (const auto& [name, value] : sets) {
    if (name == "place") used = value;
  }
  std::erase_if(sets, [](const auto& s) { return s.first == "place"; });
  const System whole = q.system.with(sets);
  if (whole.nodes() != 1 || n >= whole.accelerator_count()) return std::nullopt;
  const auto all = choices(whole.accelerator_count(), n);
  if (all.size() > kMostChoices) return std::nullopt;
  Placements out;
  out.used = {used, report.rate.samples_per_second};
  if (used.empty()) out.used.devices = fmt::format("{}", fmt::join(all.front(), ","));
  out.best = out.worst = out.used;
  std::set<std::string> seen;
  for (const auto& choice : all) {
    if (!seen.insert(crossed(whole, choice)).second) continue;
    auto placed = sets;
    placed.emplace_back("place", fmt::format("{}", fmt::join(choice, ",")));
    const System system = q.system.with(placed);
    const double rate = throughput(request_on(q, system, n));
    if (rate > out.best.rate * (1 + kSameRate)) out.best = {placed.back().second, rate};
    if (rate < out.worst.rate * (1 - kSameRate)) out.worst = {placed.back().second, rate};
  }
  return out;
}

std::string placement_text(const Placements& p, const std::string& side, int64_t devices) {
  std::string rest;
  const auto add = [&](const Placements::Choice& choice) {
    if (choice.devices == p.used.devices) return;
    rest += fmt::format("{} {} would give {} ({})", rest.empty() ? ";" : ",", choice.devices,
                        grouped(choice.rate), percent(choice.rate / p.used.rate - 1));
  };
  add(p.best);
  add(p.worst);
  if (rest.empty()) return "";
  return fmt::format("Which {} devices on {}: {} as used, {} samples/s{}", devices, side, p.used.devices,
                     grouped(p.used.rate), rest);
}

}  // namespace tandem::answers
