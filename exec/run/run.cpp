// SPDX-License-Identifier: Apache-2.0
#include "exec/run/run.h"

#include <algorithm>
#include <map>
#include <thread>

#include "exec/comm/ranks.h"
#include "exec/layout/half_gradients.h"
#include "exec/run/copy_route.h"
#include "exec/run/executable.h"

namespace tandem::exec {

namespace {

/// Of each worker of this process: groups of free-running workers that meet in collectives; else, or if a
/// group has members in other processes, everybody in one group.
std::vector<uint32_t> iteration_groups(const RunPlan& plan) {
  std::vector<uint32_t> out(plan.here(), 0);
  if (!free_running(plan.program())) return out;
  Collective meeting;
  meeting.axes = meeting_axes(plan.program());
  std::map<uint32_t, uint32_t> members;
  const auto group_of = [&](uint32_t i) { return plan.member(meeting, plan.first_here() + i).group; };
  for (uint32_t i = 0; i < plan.here(); ++i) ++members[group_of(i)];
  const uint32_t all = plan.member(meeting, plan.first_here()).ranks;
  const bool own =
      std::all_of(members.begin(), members.end(), [&](const auto& group) { return group.second == all; });
  for (uint32_t i = 0; i < plan.here() && own; ++i)
    out[i] = static_cast<uint32_t>(std::distance(members.begin(), members.find(group_of(i))));
  return out;
}

/// Null without a target. Throws InputError where nobody could watch the loss, or gradients' norms.
std::unique_ptr<LossWatch> loss_watch(const RunPlan& plan) {
  const Execution& e = plan.execution();
  const Program& program = plan.program();
  const bool apart = e.backend->asynchronous || ranks().several() || plan.stages().split();
  if (e.target && apart)
    refuse(plan, "--target-loss needs processors, one process and a model without stages");
  auto out = e.target ? std::make_unique<LossWatch>(*e.target) : nullptr;
  if (!plan.keep().norms) return out;
  int64_t summed = 0;
  for (const Op& op : program.roles[0].ops) {
    if (plan.sums_gradients(op)) summed += program.buckets[op.key].elements;
  }
  if (apart || plan.stages().uneven() || program.delay > 0 || casts_gradients(program) ||
      summed != plan.execution_graph().parameters())
    refuse(plan,
           "the noise scale is measured where processors all-reduce the gradients of two workers or more, of "
           "equal batches: "
           "--scheme allreduce --devices 2");
  return out;
}

}  // namespace

Run::Run(const RunPlan& plan)
    : plan_(plan),
      // Spinning only pays if the awaited thread runs at the same time.
      spins_(plan.here() <= std::thread::hardware_concurrency() ? 2000 : 20),
      cores_(plan),
      iterations_(plan.execution().iterations, plan.micro_batches(), plan.first_here(),
                  iteration_groups(plan), abort_),
      watch_(loss_watch(plan)) {
  check_route(plan);
  start_ = start_values(plan);
  const BoundThread messages(cores_.communicating());  // starts the transports' threads
  network_ = std::make_unique<Network>(plan, abort_);
  stage_paths_ = std::make_unique<StagePaths>(plan, *network_, abort_, spins_);
  token_paths_ = std::make_unique<TokenPaths>(plan, *network_, abort_, spins_);
  stage_paths_->open();
  token_paths_->open();
  communicators_ = std::make_unique<Communicators>(plan, *network_, abort_, spins_);
  coordinator_ = std::make_unique<Coordinator>(plan, *network_, abort_, spins_);
  if (!plan.program().stores.empty())
    server_ = std::make_unique<ParameterServer>(plan, start_, *network_, abort_, spins_);
}

std::vector<std::string> Run::remarks() const {
  const Execution& e = plan_.execution();
  std::vector<std::string> out = cores_.remarks();
  if (e.backend->asynchronous && e.job.scheme->overheads.cycle.ps > 0 && plan_.workers() > 1)
    out.emplace_back(
        "cycle: no coordinator looks for gradients of an asynchronous device; a bucket is summed "
        "when it is full");
  return out;
}

}  // namespace tandem::exec
