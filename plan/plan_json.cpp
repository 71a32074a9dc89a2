// SPDX-License-Identifier: Apache-2.0
#include "plan/plan_json.h"

#include "answers/run_command.h"
#include "answers/shell_line.h"
#include "base/json_writer.h"

namespace tandem::plan {

namespace {

/// The command that trains on the candidate, or null.
JsonWriter run_line(const PlanCandidate& c) {
  const RunCommand run = run_there(*c.question, c.way.candidate, c.way.saver);
  return run.words.empty() ? JsonWriter{} : JsonWriter(shell_line(run.words));
}

JsonWriter estimate_json(const Estimate& x) {
  return {{"low", x.low}, {"value", x.value}, {"high", x.high}, {"level", 0.9}};
}

JsonWriter cost_json(const PlanCandidate& c) {
  if (!c.cost) return {};
  const Estimate total = c.cost->total();
  return {{"low", total.low},
          {"value", total.value},
          {"high", total.high},
          {"currency", "USD"},
          {"rent", c.cost->rent.value},
          {"capital", c.cost->capital.value},
          {"outlay", c.cost->outlay.value},
          {"power", c.cost->power.value},
          {"hosting", c.cost->hosting.value},
          {"maintenance", c.cost->maintenance.value}};
}

JsonWriter offer_json(const PlanQuestion& q, const PlanCandidate& c) {
  if (!c.offer) return {};
  return {{"name", c.offer->name},          {"seller", c.offer->seller},
          {"kind", to_text(c.offer->kind)}, {"usd", c.offer->usd},
          {"date", c.offer->date.text()},   {"age", age_text(c.offer->date, q.market.today)},
          {"source", c.offer->source}};
}

JsonWriter candidate_json(const PlanQuestion& q, const PlanCandidate& c) {
  JsonWriter out = {{"system", c.system},
                    {"nodes", c.nodes},
                    {"devices", c.devices},
                    {"spare_nodes", c.spares},
                    {"scheme", c.way.candidate.scheme},
                    {"batch", c.way.candidate.batch},
                    {"precision", name(c.way.candidate.precision)},
                    {"recompute", c.way.saver.recompute.text()},
                    {"offload", c.way.saver.offload.text()},
                    {"question", c.question->to_json()},
                    {"predict", predict_line(c.question->given)},
                    {"run", run_line(c)},
                    {"samples_per_second", c.report.rate.samples_per_second},
                    {"finish_seconds", estimate_json(c.finish)},
                    {"cost", cost_json(c)},
                    {"energy_joules", estimate_json(c.joules)},
                    {"watts", estimate_json(c.watts)},
                    {"offer", offer_json(q, c)},
                    {"useful_share", c.useful},
                    {"meets_deadline_probability", c.in_time},
                    {"meets_budget_probability", c.in_budget},
                    {"meets_power_probability", c.in_power},
                    {"meets_power", c.in_power >= 0.9},
                    {"meets", c.meets()},
                    {"reasons", c.notes}};
  out["carbon_kg"] = c.carbon ? estimate_json(*c.carbon) : JsonWriter{};
  return out;
}

JsonWriter racks_json(const std::optional<Racks>& racks) {
  return racks ? JsonWriter{{"count", racks->count}, {"watts", racks->watts}} : JsonWriter{};
}

}  // namespace

std::string plan_json(const PlanQuestion& q, const Plan& plan) {
  JsonWriter target = JsonWriter::object();
  const schemes::TrainingProgress& p = *plan.ranked[0].report.progress;
  target[schemes::name(p.target)] = p.value;
  JsonWriter out = {{"schema", "tandem-plan-1"},
                    {"target", std::move(target)},
                    {"rank", to_text(q.aim)},
                    {"global_batch", q.samples},
                    {"today", q.market.today.text()},
                    {"limits",
                     {{"deadline_seconds", q.limits.deadline},
                      {"budget_usd", q.limits.budget},
                      {"watts", q.limits.power},
                      {"racks", racks_json(q.limits.racks)}}},
                    {"candidates", JsonWriter::array()},
                    {"first_beats_second_probability", plan.first_beats_second},
                    {"pareto", plan.pareto},
                    {"pareto_watts", plan.pareto_watts},
                    {"influences", JsonWriter::array()},
                    {"break_even", JsonWriter::array()},
                    {"left_out", JsonWriter::array()},
                    {"missing", plan.missing},
                    {"priced", plan.priced},
                    {"ways", plan.ways},
                    {"predicted", plan.predicted}};
  out["smallest"] = plan.smallest ? JsonWriter(*plan.smallest) : JsonWriter{};
  for (const PlanCandidate& c : plan.ranked) out["candidates"].push_back(candidate_json(q, c));
  for (const Influence& i : plan.influences)
    out["influences"].push_back({{"what", i.what}, {"low", i.low}, {"high", i.high}});
  for (const BreakEven& b : plan.break_even)
    out["break_even"].push_back({{"what", b.what}, {"factor", b.factor}});
  for (const LeftOut& l : plan.left_out)
    out["left_out"].push_back({{"system", l.system}, {"nodes", l.nodes}, {"why", l.why}});
  return out.dump(1);
}

}  // namespace tandem::plan
