// SPDX-License-Identifier: Apache-2.0
#include "schemes/learning/sync_shape.h"

#include <algorithm>
#include <cmath>

namespace tandem::schemes {

namespace {

bool of_models(Payload p) { return p == Payload::parameters || p == Payload::state || p == Payload::mean; }

/// What one of `n` partners leaves of the squared distance when each has averaged with one other: of a random
/// pair 1 - 1 / (n - 1) (Boyd et al. 2006, "Randomized gossip algorithms", of a complete graph).
double gossip_mixing(double n) { return n > 2 ? std::pow(1 - 1 / (n - 1), n / 2) : 0; }

/// Averages of models in collectives, from the list of role 0. An average every step after equal updates, as
/// of shards, is none.
void find_averages(const Program& program, SyncShape& out) {
  const Role& role = program.roles[0];
  for (uint32_t i = 0; i < role.ops.size(); ++i) {
    const Op& op = role.ops[i];
    if (op.kind == OpKind::compute && op.payload == Payload::parameters &&
        program.tasks[op.what].averaging.rule != Averaging::Rule::none)
      out.averaging = program.tasks[op.what].averaging;
    if (op.kind != OpKind::collective || !of_models(op.payload)) continue;
    const Collective& c = program.collectives[op.what];
    const bool apart = c.kind == CollKind::all_reduce && (op.every > program.micro_batches || op.from > 0);
    if (!apart || role.mesh.members(c.axes) < 2) continue;
    out.models = static_cast<double>(replicas(program));
    out.period = std::max(out.period, static_cast<double>(op.every) / program.micro_batches);
    out.apart_from = op.from;
  }
}

/// Models that a server's centre, or partners, average. A centre that becomes the mean of all is none.
void find_exchanges(const Program& program, SyncShape& out) {
  const Store& store = program.stores[0];
  out.models = static_cast<double>(replicas(program));
  if (store.own_models) {
    out.mixing = gossip_mixing(out.models);
    out.averaging = store.averaging;
    return;
  }
  const Role& role = program.roles[0];
  for (uint32_t i = 0; i < role.ops.size(); ++i) {
    if (role.ops[i].kind == OpKind::send) out.period = role.ops[i].every;
  }
  if (store.averaging.rule ==
      Averaging::Rule::delayed) {  // over a round Nesterov's step of the mean movement
    out.models /= store.shares;
    out.averaging = {Averaging::Rule::nesterov, store.averaging.rate, store.averaging.weight};
    return;
  }
  const double pull = store.averaging.rate;
  if (pull < 1) out.averaging = {Averaging::Rule::elastic, std::min(1.0, pull * out.models), pull};
}

}  // namespace

SyncShape sync_shape(const Program& program) {
  SyncShape out;
  const auto samples = static_cast<double>(samples_per_step(program));
  out.step_samples = samples * static_cast<double>(replicas(program));
  if (program.stores.empty()) {
    find_averages(program, out);
  } else if (program.stores[0].averaging.rule != Averaging::Rule::none) {
    find_exchanges(program, out);
  } else {
    out.step_samples = samples * program.stores[0].batch * program.stores[0].shares;
  }
  if (out.averaging.rule == Averaging::Rule::elastic && out.averaging.weight > 0)
    out.mixing = 1 - out.averaging.weight;
  return out;
}

double mean_delay(const Program& program, const Histogram& staleness) {
  if (program.delay > 0) return program.delay;
  const bool counted = !program.stores.empty() && program.stores[0].averaging.rule == Averaging::Rule::none;
  return counted ? staleness.mean() : 0;
}

}  // namespace tandem::schemes
