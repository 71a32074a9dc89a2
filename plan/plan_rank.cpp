// SPDX-License-Identifier: Apache-2.0
#include "plan/plan_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <numeric>
#include <tuple>

#include "answers/goodput.h"

namespace tandem::plan {

namespace {

constexpr double kNormal90 = 1.645;

double normal_below(double z) { return boost::math::cdf(boost::math::normal(), z); }

/// What the candidate's value by the aim would be if its time were known exactly: the bounds of the rest.
Estimate without_time(const PlanQuestion& q, const PlanCandidate& c) {
  if (q.aim == Aim::soonest) return c.finish.value;
  const Estimate joules = c.watts * c.finish.value;
  if (q.aim == Aim::least_energy) return joules;
  return cost_of(q.market.ownership, c, c.finish.value, joules).total();
}

Estimate over_value(const Estimate& x) { return {x.low / x.value, 1, x.high / x.value}; }

/// What failures add to the bounds of the finish beyond those of the rate.
Estimate by_failures(const PlanCandidate& c) {
  const schemes::TrainingProgress& p = *c.report.progress;
  const double low = p.seconds_low.value_or(*p.seconds) / *p.seconds;
  const double high = p.seconds_high.value_or(*p.seconds) / *p.seconds;
  return {c.finish.low / c.finish.value / low, 1, c.finish.high / c.finish.value / high};
}

/// Under two offers.
bool same_machine(const PlanCandidate& a, const PlanCandidate& b) {
  return a.system == b.system && a.nodes == b.nodes;
}

std::string words(const PlanCandidate& c) {
  return fmt::format("{} x {}{}", c.nodes, c.system,
                     c.offer ? fmt::format(" ({})", to_text(c.offer->kind)) : "");
}

/// The bounds of the second's value over the first's as one input at a time varies.
std::vector<Influence> influences(const PlanQuestion& q, const PlanCandidate& a, const PlanCandidate& b) {
  const double ratio = b.value(q.aim) / a.value(q.aim);
  std::vector<Influence> out;
  const auto add = [&](std::string what, double low, double high) {
    if (high / low > 1.001) out.push_back({std::move(what), ratio * low, ratio * high});
  };
  // Of the rates, errors in common cancel; all of them, where two offers are for one machine.
  const schemes::Report::Interval rates = schemes::ratio_interval(b.report, a.report);
  const double rate = a.report.rate.samples_per_second / b.report.rate.samples_per_second;
  if (rates.low > 0 && !same_machine(a, b)) add("speeds of the two", rates.low / rate, rates.high / rate);
  const Estimate of_a = over_value(without_time(q, a)), of_b = over_value(without_time(q, b));
  const bool energy = q.aim == Aim::least_energy;
  const std::string rest = energy ? "power" : "cost of owning";
  // What owning costs, or a kind of machine draws, is as uncertain for one as for the other.
  const bool alike = energy ? a.system == b.system : a.offer && b.offer && a.offer->kind == b.offer->kind;
  if (alike) {
    const auto [low, high] = std::minmax({of_b.low / of_a.low, of_b.high / of_a.high});
    add(energy ? "power of such machines" : "cost of owning such machines", std::min(1.0, low),
        std::max(1.0, high));
  } else {
    const std::string_view of = energy ? " of" : "";
    add(fmt::format("{}{} the first", rest, of), 1 / of_a.high, 1 / of_a.low);
    add(fmt::format("{}{} the second", rest, of), of_b.low, of_b.high);
  }
  if (!same_machine(a, b) || !(a.finish == b.finish)) {
    const Estimate lost_a = by_failures(a), lost_b = by_failures(b);
    add("failures of the first", 1 / lost_a.high, 1 / lost_a.low);
    add("failures of the second", lost_b.low, lost_b.high);
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Influence& x, const Influence& y) { return x.high / x.low > y.high / y.low; });
  return out;
}

/// As answers::probability_faster(): each influence is lognormal to either side, and counts by the side that
/// changes the order.
std::optional<double> first_beats_second(const std::vector<Influence>& influences, double ratio) {
  if (!(ratio > 0) || !std::isfinite(ratio)) return std::nullopt;
  double variance = 0;
  for (const Influence& i : influences)
    variance += std::pow((ratio > 1 ? std::log(ratio / i.low) : std::log(i.high / ratio)) / kNormal90, 2);
  if (!(variance > 0)) return ratio > 1 ? 1 : ratio < 1 ? 0 : 0.5;
  return normal_below(std::log(ratio) / std::sqrt(variance));
}

/// How many times its price the candidate's offer must cost for its total to be `total`: a price also moves
/// what is a share of it. Unset: not even free of charge.
std::optional<double> price_factor(const PlanQuestion& q, const PlanCandidate& c, double total) {
  PlanCandidate dearer = c;
  dearer.offer->usd *= 2;
  const double now = c.cost->total().value;
  const double of_price = cost_of(q.market.ownership, dearer, c.finish, c.joules).total().value - now;
  const double factor = 1 + (total - now) / of_price;
  return factor > 0 ? std::optional(factor) : std::nullopt;
}

std::vector<BreakEven> break_even(const PlanQuestion& q, const PlanCandidate& a, const PlanCandidate& b) {
  const double ratio = b.value(q.aim) / a.value(q.aim);
  std::vector<BreakEven> out;
  const bool limits_decide = a.meets() != b.meets() || a.way.tight != b.way.tight;
  if (limits_decide || !std::isfinite(ratio) || !(ratio > 1)) return out;
  if (!same_machine(a, b)) out.push_back({fmt::format("samples/s of {}", words(b)), ratio});
  if (q.aim != Aim::cheapest) return out;
  for (const auto& [c, other] : {std::pair{&b, &a}, std::pair{&a, &b}}) {
    if (const auto factor = price_factor(q, *c, other->value(q.aim)))
      out.push_back({fmt::format("price of {}", words(*c)), *factor});
  }
  return out;
}

/// Those that no other beats in both.
template <typename First, typename Second>
std::vector<std::size_t> front(const std::vector<PlanCandidate>& all, First first, Second second) {
  std::vector<std::size_t> order(all.size()), out;
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t x, std::size_t y) {
    return std::pair(first(all[x]), second(all[x])) < std::pair(first(all[y]), second(all[y]));
  });
  double least = INFINITY;
  for (const std::size_t i : order) {
    if (second(all[i]) >= least) continue;
    least = second(all[i]);
    out.push_back(i);
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

Cost cost_of(const Ownership& ownership, const PlanCandidate& c, const Estimate& seconds,
             const Estimate& joules) {
  Ownership own = ownership;
  own.spares += static_cast<double>(c.spares) / static_cast<double>(c.nodes);
  return cost_of(*c.offer, c.nodes, c.devices, seconds, joules, own);
}

double probability_within(const Estimate& x, double limit) {
  const double distance = std::log(limit / x.value);
  const double spread = distance > 0 ? std::log(x.high / x.value) : std::log(x.value / x.low);
  if (!(spread > 0)) return distance >= 0 ? 1 : 0;
  return normal_below(distance * kNormal90 / spread);
}

double useful_share(const schemes::Goodput& goodput, int64_t nodes, const answers::Failures& failures) {
  answers::FailingJob job;
  job.nodes = nodes;
  job.node_mtbf = failures.node_mtbf;
  job.interval = goodput.interval;
  job.checkpoint = goodput.checkpoint;
  job.restart = failures.restart.value_or(goodput.restart);
  job.repair = failures.repair;
  job.spares = failures.spares;
  return answers::expected_times(job).useful;
}

double watts_within(const Limits& limits, int64_t nodes) {
  const double all = limits.power.value_or(INFINITY);
  if (!limits.racks || !limits.racks->watts) return all;
  return std::min(all, *limits.racks->watts * static_cast<double>(nodes) /
                           static_cast<double>(limits.racks->in_one(nodes)));
}

void judge(const Limits& limits, PlanCandidate& c) {
  c.in_time = limits.deadline ? probability_within(c.finish, *limits.deadline) : 1;
  c.in_budget = !limits.budget ? 1 : c.cost ? probability_within(c.cost->needed(), *limits.budget) : 0;
  const double watts = watts_within(limits, c.nodes);
  c.in_power = std::isfinite(watts) ? probability_within(c.watts, watts) : 1;
}

void rank(const PlanQuestion& q, Plan& plan) {
  auto& all = plan.ranked;
  std::stable_sort(all.begin(), all.end(), [&](const PlanCandidate& a, const PlanCandidate& b) {
    const auto key = [&](const PlanCandidate& c) {
      return std::tuple(!c.meets(), c.way.tight, c.value(q.aim), c.cost ? c.cost->total().value : INFINITY,
                        c.devices);
    };
    return key(a) < key(b);
  });
  const auto seconds = [](const PlanCandidate& c) { return c.finish.value; };
  const auto cost = [](const PlanCandidate& c) { return c.cost ? c.cost->total().value : INFINITY; };
  const auto watts = [](const PlanCandidate& c) { return c.watts.value; };
  plan.pareto = front(all, seconds, cost);
  plan.pareto_watts = front(all, seconds, watts);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!all[i].meets()) continue;
    if (!plan.smallest || std::pair(all[i].devices, all[i].value(q.aim)) <
                              std::pair(all[*plan.smallest].devices, all[*plan.smallest].value(q.aim)))
      plan.smallest = i;
  }
  if (all.size() < 2 || (q.aim == Aim::cheapest && (!all[0].offer || !all[1].offer))) return;
  plan.influences = influences(q, all[0], all[1]);
  plan.first_beats_second = first_beats_second(plan.influences, all[1].value(q.aim) / all[0].value(q.aim));
  plan.break_even = break_even(q, all[0], all[1]);
}

}  // namespace tandem::plan
