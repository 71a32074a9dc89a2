// SPDX-License-Identifier: Apache-2.0
#include "app/analysis/plan_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "answers/run_command.h"
#include "answers/shell_line.h"
#include "app/console/terminal.h"
#include "base/text.h"
#include "plan/plan_words.h"

namespace tandem::app {

namespace {

using plan::Aim;
using plan::Estimate;
using plan::Plan;
using plan::PlanCandidate;
using plan::PlanQuestion;

std::string machine_text(const PlanCandidate& c) {
  return fmt::format("{}{} x {}", c.nodes, c.spares > 0 ? fmt::format("+{}", c.spares) : "", c.system);
}

/// "1 machine", "1,234 ways".
std::string count_text(int64_t n, std::string_view what) {
  const std::string number = n < 1000 ? std::to_string(n) : grouped(static_cast<double>(n));
  return fmt::format("{} {}{}", number, what, n == 1 ? "" : "s");
}

std::string offer_text(const PlanCandidate& c) {
  if (!c.offer) return "no price";
  if (!c.bought()) {
    std::string term;
    if (c.offer->committed_hours > 0)
      term = fmt::format(" for {:.3g} months", c.offer->committed_hours / plan::kHoursOfMonth);
    return fmt::format("{}, {}{}", c.offer->seller, to_text(c.offer->kind), term);
  }
  return fmt::format("{}, to buy for {}", c.offer->seller, money_text(c.cost->outlay.value));
}

/// The commands of the first.
std::string commands_text(const PlanCandidate& c, int columns) {
  const RunCommand run = run_there(*c.question, c.way.candidate, c.way.saver);
  return "\nPredict the first:\n  " + predict_line(c.question->given) + "\n" +
         (run.words.empty() ? wrapped(fmt::format("It has no tandem run: {}.", run.why_not), columns) + "\n"
                            : "Run it there:\n  " + shell_line(run.words) + "\n");
}

std::string limits_text(const plan::Limits& limits) {
  std::vector<std::string> parts;
  if (limits.deadline) parts.push_back(fmt::format("within {}", time_text(*limits.deadline)));
  if (limits.budget) parts.push_back(fmt::format("for {}", money_text(*limits.budget)));
  if (limits.power) parts.push_back(fmt::format("with {}", watts_text(*limits.power)));
  if (limits.racks) {
    parts.push_back(fmt::format("in {}", count_text(limits.racks->count, "rack")));
    if (limits.racks->watts) parts.back() += fmt::format(" of {}", watts_text(*limits.racks->watts));
  }
  std::string out;
  for (std::size_t i = 0; i < parts.size(); ++i)
    out += (i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ") + parts[i];
  return out;
}

std::string heading(const PlanQuestion& q, const Plan& plan) {
  const PlanCandidate& first = plan.ranked[0];
  const std::string limits = limits_text(q.limits);
  return fmt::format("{} · {} · {} in a step · {}{} · {} first\n", first.question->graph.name(),
                     target_text(schemes::name(first.report.progress->target), first.report.progress->value),
                     count_text(q.samples, "sample"), first.question->optimizer->name,
                     limits.empty() ? "" : " · " + limits, to_text(q.aim));
}

/// The first of all, those that none beats in time and money, and the smallest that keeps to the limits.
bool shown(const PlanQuestion& q, const Plan& plan, std::size_t i) {
  return i < q.top || std::find(plan.pareto.begin(), plan.pareto.end(), i) != plan.pareto.end() ||
         plan.smallest == i;
}

std::string first_text(const PlanCandidate& c) {
  std::string out = fmt::format("Train on the first with {}, batch {} of {} in a step, {}",
                                c.way.candidate.scheme, c.way.candidate.batch,
                                c.report.setup.samples_per_iteration, name(c.way.candidate.precision));
  if (!(c.way.saver.recompute == schemes::Recompute{}))
    out += fmt::format(", recomputing {}", c.way.saver.recompute.text());
  if (c.way.saver.offload.any()) out += fmt::format(", {} in the host's memory", c.way.saver.offload.text());
  out += fmt::format(": {} samples/s, {} of {} a device, {} at the wall",
                     grouped(c.report.rate.samples_per_second), to_text(c.report.memory.needed()),
                     to_text(c.report.memory.capacity), watts_text(c.watts.value));
  if (c.carbon) out += fmt::format(", {} kg of CO2 equivalent", grouped(c.carbon->value));
  return out + ".\n";
}

/// The smallest that keeps to the limits, or which comes nearest to it.
std::string limits_met_text(const Plan& plan) {
  const auto& all = plan.ranked;
  if (plan.smallest)
    return fmt::format("The smallest that keeps to the limits with 90 % probability is number {}, with {}.\n",
                       *plan.smallest + 1, count_text(all[*plan.smallest].devices, "device"));
  const auto likeliest = std::max_element(
      all.begin(), all.end(), [](const auto& a, const auto& b) { return a.in_limits() < b.in_limits(); });
  if (likeliest->in_limits() < 0.01) return "None keeps to the limits.\n";
  return fmt::format("None keeps to the limits with 90 % probability; the likeliest is number {}, with {}.\n",
                     likeliest - all.begin() + 1, chance_text(likeliest->in_limits()));
}

std::string decision_text(const PlanQuestion& q, const Plan& plan) {
  std::string out;
  if (!limits_text(q.limits).empty()) out += limits_met_text(plan);
  const bool equal = plan.first_beats_second && plan.influences.empty() &&
                     plan.ranked[0].value(q.aim) == plan.ranked[1].value(q.aim);
  if (equal) {
    out += fmt::format("The second {}: it is the same machine under another offer.\n",
                       q.aim == Aim::soonest    ? "is done as soon as the first"
                       : q.aim == Aim::cheapest ? "costs as much as the first"
                                                : "needs as much energy as the first");
  } else if (plan.first_beats_second) {
    const char* better = q.aim == Aim::soonest    ? "is done sooner"
                         : q.aim == Aim::cheapest ? "is cheaper"
                                                  : "needs less energy";
    out += fmt::format("The first {} than the second with probability {}; errors that both have cancel.\n",
                       better, chance_text(*plan.first_beats_second));
  }
  if (!plan.influences.empty()) {
    const std::string ratio =
        fmt::format("{:.2f} times", plan.ranked[1].value(q.aim) / plan.ranked[0].value(q.aim));
    out += fmt::format("The second {}. As one input varies within its bounds, this is",
                       q.aim == Aim::soonest    ? fmt::format("takes {} as long as the first", ratio)
                       : q.aim == Aim::cheapest ? fmt::format("costs {} as much as the first", ratio)
                                                : fmt::format("needs {} the energy of the first", ratio));
    std::string_view before = " ";
    for (const plan::Influence& i : plan.influences) {
      const std::string low = fmt::format("{:.2f}", i.low), high = fmt::format("{:.2f}", i.high);
      if (&i != &plan.influences.front() && low == high) continue;
      out += fmt::format("{}{} to {} ({})", before, low, high, i.what);
      before = ", ";
    }
    out += ".\n";
  }
  if (!plan.break_even.empty()) {
    out += "The second would come first with";
    for (const plan::BreakEven& b : plan.break_even)
      out += fmt::format("{} {:.4g} times the {}", &b == &plan.break_even.front() ? "" : ", or", b.factor,
                         b.what);
    out += ".\n";
  }
  if (plan.pareto.size() > 1) {
    out += "None is both sooner and cheaper than numbers";
    for (const std::size_t i : plan.pareto)
      out += fmt::format("{} {}", i == plan.pareto[0] ? "" : ",", i + 1);
    out += ".\n";
  }
  return out;
}

void add_once(std::string& out, const std::string& line) {
  if (out.find(line) == std::string::npos) out += line;
}

std::string assumed_text(const PlanQuestion& q, const Plan& plan) {
  std::string out;
  for (const PlanCandidate& c : plan.ranked) {
    if (!c.offer) continue;
    add_once(out, fmt::format("- {}. Source: {}{}\n", describe(*c.offer, q.market.today), c.offer->source,
                              c.offer->note.empty() ? "" : ". Note: " + c.offer->note));
  }
  std::set<std::string> kinds;
  for (const PlanCandidate& c : plan.ranked) {
    if (!c.faults) continue;
    const plan::FaultRates& rates = *c.faults;
    if (!kinds.insert(rates.kind).second) continue;
    out += fmt::format("- failures of {}: every {} in a node of {}. Source: {}\n", rates.kind,
                       time_text(rates.node_mtbf.value),
                       count_text(static_cast<int64_t>(std::round(rates.devices)), "device"), rates.source);
  }
  for (const PlanCandidate& c : plan.ranked) {
    for (const std::string& note : c.notes) {
      if (!c.offer || note != c.offer->note) add_once(out, fmt::format("- {}\n", note));
    }
  }
  for (const std::string& missing : plan.missing) out += fmt::format("- missing: {}\n", missing);
  return out.empty() ? "" : "\nWhat this rests on:\n" + out;
}

std::string left_out_text(const Plan& plan) {
  constexpr std::size_t kMost = 6;
  std::string out;
  for (std::size_t i = 0; i < std::min(kMost, plan.left_out.size()); ++i) {
    const plan::LeftOut& l = plan.left_out[i];
    out += fmt::format("- {} x {}: {}\n", l.nodes, l.system, l.why);
  }
  if (plan.left_out.size() > kMost) out += fmt::format("- and {} more\n", plan.left_out.size() - kMost);
  return out.empty() ? "" : "\nNo candidates:\n" + out;
}

}  // namespace

Table plan_table(const PlanQuestion& q, const Plan& plan, bool whole) {
  std::vector<Column> columns = {{"", true},     {"machine"},      {"done in", true},     {"90 %", true, 6},
                                 {"cost", true}, {"energy", true}, {"offer", false, true}};
  const bool limited = q.limits.any();
  if (limited) columns.insert(columns.begin() + 6, {"in limits", true});
  if (whole)
    columns = {{"rank"},        {"system"},       {"nodes"},       {"devices"},   {"scheme"},
               {"batch"},       {"precision"},    {"recompute"},   {"samples/s"}, {"seconds"},
               {"seconds low"}, {"seconds high"}, {"USD"},         {"USD low"},   {"USD high"},
               {"joules"},      {"watts"},        {"P(deadline)"}, {"P(budget)"}, {"offer"},
               {"kind"},        {"spare nodes"},  {"in power"},    {"meets"}};
  Table table(columns);
  const auto plain = [](double x) { return fmt::format("{:.6g}", x); };
  int number = 0;
  for (const PlanCandidate& c : plan.ranked) {
    if (!whole && !shown(q, plan, static_cast<std::size_t>(number))) {
      ++number;
      continue;
    }
    const std::string offer = offer_text(c);
    const Estimate usd = c.cost ? c.cost->total() : Estimate{};
    if (whole) {
      const auto& w = c.way.candidate;
      table.add({std::to_string(++number),
                 c.system,
                 std::to_string(c.nodes),
                 std::to_string(c.devices),
                 w.scheme,
                 std::to_string(w.batch),
                 std::string(name(w.precision)),
                 c.way.saver.recompute.text(),
                 plain(c.report.rate.samples_per_second),
                 plain(c.finish.value),
                 plain(c.finish.low),
                 plain(c.finish.high),
                 c.cost ? plain(usd.value) : "",
                 c.cost ? plain(usd.low) : "",
                 c.cost ? plain(usd.high) : "",
                 plain(c.joules.value),
                 plain(c.watts.value),
                 plain(c.in_time),
                 plain(c.in_budget),
                 c.offer ? c.offer->name : "",
                 c.offer ? std::string(to_text(c.offer->kind)) : "",
                 std::to_string(c.spares),
                 c.in_power >= 0.9 ? "true" : "false",
                 c.meets() ? "true" : "false"});
      continue;
    }
    std::vector<std::string> row = {std::to_string(++number),
                                    machine_text(c),
                                    time_text(c.finish.value),
                                    time_range_text(c.finish.low, c.finish.high),
                                    c.cost ? money_text(usd.value) : "-",
                                    energy_text(c.joules.value),
                                    offer};
    if (limited) row.insert(row.begin() + 6, chance_text(c.in_limits()));
    table.add(std::move(row));
  }
  return table;
}

std::string plan_text(const PlanQuestion& q, const Plan& plan, int columns) {
  const PlanCandidate& first = plan.ranked[0];
  std::string out = first_text(first) + decision_text(q, plan);
  std::size_t rows = 0;
  for (std::size_t i = 0; i < plan.ranked.size(); ++i) rows += shown(q, plan, i) ? 1 : 0;
  if (rows < plan.ranked.size())
    out +=
        count_text(static_cast<int64_t>(plan.ranked.size() - rows), "more row") + ": --format csv or json.\n";
  if (std::any_of(plan.ranked.begin(), plan.ranked.end(),
                  [](const PlanCandidate& c) { return c.spares > 0; }))
    out += "In 8+1 nodes one is a spare: there are as many as make it cheapest.\n";
  out += fmt::format("{} and {} to train on them were compared by bounds, and {} predicted{}.\n",
                     count_text(plan.priced, "machine"), count_text(plan.ways, "way"), plan.predicted,
                     plan.interrupted ? " before the interrupt" : "");
  out += assumed_text(q, plan) + left_out_text(plan);
  return wrapped(heading(q, plan), columns) + "\n" + plan_table(q, plan, false).text(true, columns) + "\n" +
         wrapped(out, columns) + commands_text(first, columns);
}

}  // namespace tandem::app
