// SPDX-License-Identifier: Apache-2.0
#include "exec/run/run_plan.h"

#include <fmt/format.h>

#include "exec/comm/ranks.h"
#include "exec/run/learning_rate.h"

namespace tandem::exec {

namespace {

/// Of the program, for that number of steps.
int32_t all_iterations(const Execution& e, const Program& program) {
  const int64_t all = checked_mul(e.iterations, program.micro_batches, "the iterations to run");
  if (all > INT32_MAX)
    throw InputError(fmt::format("{} iterations of {} micro-batches: at most {} micro-batches are run",
                                 e.iterations, program.micro_batches, INT32_MAX));
  return static_cast<int32_t>(all);
}

}  // namespace

RunPlan::RunPlan(const Execution& e, const Keep& keep)
    : execution_(executable(e)),
      keep_(keep),
      program_(make_program(e)),
      stages_(e, program_),
      optimizer_state_(*e.job.optimizer, stages_.whole()),
      shards_(program_, e, stages_.devices()),
      scattering_(scattering_collectives(program_)),
      expected_(all_iterations(e, program_)) {
  if (workers() > 1) {
    here_ = workers() / static_cast<uint32_t>(ranks().size);
    first_here_ = here_ * static_cast<uint32_t>(ranks().rank);
  }
  gradient_scale_ = scale_gradients();
}

uint32_t RunPlan::device_index(uint32_t instance) const {
  return static_cast<uint32_t>(ranks().local) * here_ + instance - first_here_;
}

/// Over the summed members and the micro-batches.
GradientScale RunPlan::scale_gradients() const {
  GradientScale out;
  const auto& ops = program_.roles[0].ops;
  for (const Op& op : ops) {
    const bool compressed = op.payload == Payload::compressed;
    if (op.kind != OpKind::collective || (op.payload != Payload::gradients && !compressed)) continue;
    const CollKind kind = program_.collectives[op.what].kind;
    const bool sums = compressed || kind == CollKind::all_reduce || kind == CollKind::reduce ||
                      (kind == CollKind::reduce_scatter && program_.stores.empty());
    if (!sums) continue;
    // Dealt experts have seen the others' tokens already: theirs is a mean over all of these. So are shared
    // layers if partners have different samples and losses are means over all of these.
    const uint32_t members = stages_.own_samples() ? 1
                             : stages_.split()     ? stages_.replicas() / stages_.apart() * stages_.contexts()
                                                   : member(program_.collectives[op.what], 0).ranks;
    out.factor = 1 / static_cast<float>(members);
    out.each_micro_batch_sums = micro_batches() > 1 && op.every == 1;
    if (op.until != Op::kEver) out.sums_until = op.until;
  }
  const auto between = std::find_if(ops.begin(), ops.end(), [](const Op& op) {
    return op.kind == OpKind::collective && op.payload == Payload::shard;
  });
  if (between != ops.end() && !stages_.split())
    out.factor /= static_cast<float>(member(program_.collectives[(*between).what], 0).ranks);
  for (const Op& op : ops) {
    if (op.kind == OpKind::collective && op.payload == Payload::gradients && op.micro + 1 < stages_.micros())
      out.each_micro_batch_sums = true;
  }
  out.factor /= static_cast<float>(micro_batches() * stages_.micros());
  return out;
}

IterationState RunPlan::state(uint32_t instance, int32_t iteration, int32_t micro) const {
  const int64_t all = first_iteration() + iteration, step = all / micro_batches();
  const bool alone = all >= int64_t{gradient_scale_.sums_until};
  IterationState s;
  s.seed = execution_.seed;
  s.instance = stages_.place(instance).replica;
  s.iteration = static_cast<uint32_t>(all * stages_.micros() + micro);
  s.micro = static_cast<uint32_t>(micro);
  s.learning_rate =
      execution_.integer_gradients ? 1.0F : learning_rate(execution_.rate, step, stages_.replicas());
  s.gradient_scale = execution_.integer_gradients || alone ? 1.0F : gradient_scale_.factor;
  s.updates = step + 1;
  return s;
}

std::vector<Slice> RunPlan::summed_whole(uint32_t instance) const {
  std::vector<Slice> out;
  if (micro_batches() * stages_.micros() == 1 || sums_on_host()) return out;
  if (!gradient_scale_.each_micro_batch_sums) return {{0, stages_.lowered(instance).parameters()}};
  for (uint32_t key = 0; key < program_.buckets.size(); ++key) {
    const Bucket& b = program_.buckets[key];
    if (b.role == stages_.place(instance).role && scattering_[key] < 0) out.push_back({b.first, b.elements});
  }
  return out;
}

Slice RunPlan::share(uint32_t key, uint32_t instance) const {
  return share_of(program_, stages_, scattering_, key, instance);
}

Call RunPlan::update_call(const OptimizerState& state, const Slice& part) const {
  Call out;
  out.function = Function::update;
  out.pass = Pass::update;
  const Optimizer& rule = *execution_.job.optimizer;
  out.shape = {part.elements, execution_.integer_gradients ? 0 : &rule - optimizers().data()};
  if (rule.by_tensor() && !execution_.integer_gradients) out.tensors = state.in(part);
  return out;
}

std::vector<std::vector<uint32_t>> RunPlan::groups(const Collective& collective) const {
  const uint32_t ranks = member(collective, 0).ranks;
  std::vector<std::vector<uint32_t>> out(workers() / ranks, std::vector<uint32_t>(ranks));
  for (uint32_t i = 0; i < workers(); ++i) {
    const GroupMember at = member(collective, i);
    out[at.group][at.rank] = i;
  }
  return out;
}

bool RunPlan::sums_gradients(const Op& op) const {
  return op.kind == OpKind::collective && op.payload == Payload::gradients &&
         program_.collectives[op.what].kind == CollKind::all_reduce;
}

bool RunPlan::carries_tokens(const Op& op) const {
  if (op.kind != OpKind::collective || op.payload != Payload::exchanged) return false;
  const CollKind kind = program_.collectives[op.what].kind;
  const Layer& layer = execution_.job.graph->layers()[op.key];
  return kind == CollKind::all_to_all || (kind != CollKind::all_reduce && layer.type->name == "experts");
}

}  // namespace tandem::exec
