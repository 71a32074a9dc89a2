// SPDX-License-Identifier: Apache-2.0
#include "schemes/progress.h"

#include <algorithm>
#include <cmath>

namespace tandem::schemes {

namespace {

bool of_models(Payload p) { return p == Payload::parameters || p == Payload::state || p == Payload::mean; }

/// Of instances that a collective joins.
double members(const Role& role, const Collective& c) {
  double out = 1;
  for (std::size_t axis = 0; axis < role.mesh.axes.size(); ++axis) {
    if ((c.axes >> axis & 1U) != 0) out *= role.mesh.axes[axis].size;
  }
  return out;
}

/// What one of `n` partners leaves of the squared distance when each has averaged with one other: of a random
/// pair 1 - 1 / (n - 1) (Boyd et al. 2006, "Randomized gossip algorithms", of a complete graph).
double gossip_mixing(double n) { return n > 2 ? std::pow(1 - 1 / (n - 1), n / 2) : 0; }

/// Models are averaged with an anchor that is drawn to them.
void add_rule(const Averaging& rule, double models, SyncShape& out) {
  if (rule.rule == Averaging::Rule::momentum || rule.rule == Averaging::Rule::nesterov)
    out.outer_step = rule.weight < 1 ? rule.rate / (1 - rule.weight) : rule.rate;
  if (rule.rule == Averaging::Rule::elastic)
    // Between workers a distance shrinks by 1 - weight, that of their mean to the centre by the rate besides.
    out.mixing =
        std::max(std::abs(1 - rule.weight), std::abs(1 - rule.weight - std::max(rule.rate, rule.weight)));
  out.models = models;
}

/// Averages of models in collectives, from the list of role 0. An average every step behind updates that are
/// alike, as of shards, is none.
void find_averages(const Program& program, SyncShape& out) {
  const Role& role = program.roles[0];
  double reached = 1;  // models that one average joins
  for (uint32_t i = 0; i < role.ops.size(); ++i) {
    const Op& op = role.ops[i];
    if (op.kind == OpKind::compute && op.payload == Payload::parameters &&
        program.tasks[op.what].averaging.rule != Averaging::Rule::none)
      add_rule(program.tasks[op.what].averaging, out.models, out);
    if (op.kind != OpKind::collective || !of_models(op.payload)) continue;
    const Collective& c = program.collectives[op.what];
    const bool apart = c.kind == CollKind::all_reduce && (op.every > program.micro_batches || op.from > 0);
    if (!apart) continue;
    reached = std::max(reached, members(role, c));
    out.models = static_cast<double>(replicas(program));
    out.period = std::max(out.period, static_cast<double>(op.every) / program.micro_batches);
    out.apart_from = op.from;
  }
}

/// Models that a server's centre, or partners, average.
void find_exchanges(const Program& program, SyncShape& out) {
  const Store& store = program.stores[0];
  out.models = static_cast<double>(replicas(program));
  if (store.own_models) {
    out.mixing = gossip_mixing(out.models);
    return;
  }
  add_rule({Averaging::Rule::elastic, store.averaging.rate, store.averaging.rate}, out.models, out);
  const Role& role = program.roles[0];
  for (uint32_t i = 0; i < role.ops.size(); ++i) {
    if (role.ops[i].kind == OpKind::send) out.period = role.ops[i].every;
  }
}

double drift(const SyncShape& s) {
  const double left = s.mixing * s.mixing;
  return s.models > 1 ? s.models * (s.period * (1 + left) / (1 - left) - 1) : 0;
}

double noise_factor(const SyncShape& s, double noise) { return 1 + drift(s) / (1 + noise / s.step_samples); }

}  // namespace

SyncShape sync_shape(const Program& program) {
  SyncShape out;
  const auto samples = static_cast<double>(samples_per_step(program));
  out.step_samples = samples * static_cast<double>(replicas(program));
  if (program.stores.empty()) {
    find_averages(program, out);
    return out;
  }
  const Store& store = program.stores[0];
  if (store.averaging.rule != Averaging::Rule::none) {
    find_exchanges(program, out);
    return out;
  }
  out.step_samples = samples * store.batch * store.shares;
  return out;
}

double mean_delay(const Program& program, const Histogram& staleness) {
  if (program.delay > 0) return program.delay;
  const bool counted = !program.stores.empty() && program.stores[0].averaging.rule == Averaging::Rule::none;
  return counted ? staleness.mean() : 0;
}

double relative_steps(const SyncShape& s, double delay, double noise) {
  return 1 + delay + noise_factor(s, noise) * noise / s.step_samples;
}

double steps_to_target(const SyncShape& s, double delay, double noise, double fewest) {
  const double apart = fewest * relative_steps(s, delay, noise);
  if (s.apart_from == 0) return apart;
  SyncShape summed = s;
  summed.models = 1;
  const double together = fewest * relative_steps(summed, delay, noise);
  const auto first = static_cast<double>(s.apart_from);
  return first >= together ? together : first + (1 - first / together) * apart;
}

double learning_rate_share(const SyncShape& s, double delay, double noise) {
  return 1 / relative_steps(s, delay, noise) / s.outer_step;
}

double fewest_steps(double samples, double step_samples, double noise) {
  return samples / (step_samples + noise);
}

std::string_view name(TrainingProgress::Target target) {
  switch (target) {
    case TrainingProgress::Target::loss:
      return "loss";
    case TrainingProgress::Target::epochs:
      return "epochs";
    case TrainingProgress::Target::tokens:
      return "tokens";
  }
  return "";
}

namespace {

constexpr std::pair<const char*, std::optional<double> TrainingProgress::*> kMaybe[] = {
    {"samples", &TrainingProgress::samples},
    {"steps", &TrainingProgress::steps},
    {"seconds", &TrainingProgress::seconds},
    {"seconds_low", &TrainingProgress::seconds_low},
    {"seconds_high", &TrainingProgress::seconds_high},
    {"noise_scale_samples", &TrainingProgress::noise_scale},
    {"efficiency", &TrainingProgress::efficiency},
    {"learning_rate_share", &TrainingProgress::learning_rate_share}};
constexpr std::pair<const char*, double TrainingProgress::*> kAlways[] = {
    {"samples_per_step", &TrainingProgress::step_samples},
    {"delay_steps", &TrainingProgress::delay},
    {"models", &TrainingProgress::models},
    {"averaging_period_steps", &TrainingProgress::period},
    {"mixing", &TrainingProgress::mixing},
    {"target_value", &TrainingProgress::value}};

}  // namespace

JsonWriter progress_json(const TrainingProgress& p) {
  JsonWriter out;
  out["target"] = name(p.target);
  for (const auto& [key, value] : kAlways) out[key] = p.*value;
  out["measured"] = p.measured;
  for (const auto& [key, value] : kMaybe) out[key] = p.*value;
  out["noise_scale_source"] = p.noise_source;
  out["sources"] = p.sources;
  out["unknown"] = p.unknown;
  return out;
}

TrainingProgress read_progress(const Json& d) {
  TrainingProgress p;
  const std::string target = d.text("target", "loss");
  for (const auto t :
       {TrainingProgress::Target::loss, TrainingProgress::Target::epochs, TrainingProgress::Target::tokens}) {
    if (name(t) == target) p.target = t;
  }
  for (const auto& [key, value] : kAlways) p.*value = d.real(key, p.*value);
  p.measured = d.boolean("measured", false);
  for (const auto& [key, value] : kMaybe) {
    const Json* number = d.find(key);
    if (number != nullptr && number->kind() != Json::Kind::null) p.*value = number->as_real();
  }
  p.noise_source = d.text("noise_scale_source", "");
  for (const auto& [key, list] : {std::pair{"sources", &p.sources}, std::pair{"unknown", &p.unknown}}) {
    const Json* texts = d.find(key);
    if (texts == nullptr) continue;
    for (const Json& each : texts->items()) list->push_back(each.as_text());
  }
  return p;
}

}  // namespace tandem::schemes
