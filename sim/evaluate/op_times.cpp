// SPDX-License-Identifier: Apache-2.0
#include "sim/evaluate/op_times.h"

#include <algorithm>

namespace tandem::sim {

OpTimes::OpTimes(const BoundProgram& plan, const EventRoles& roles, Recorder& recorder)
    : plan_(plan),
      roles_(roles),
      recorder_(recorder),
      calm_(plan.disturbance.none()),
      waited_(roles.instances(), 0),
      host_(roles.instances()) {
  if (!calm_) iteration_factor_.assign(roles.instances(), {UINT32_MAX, 1.0});
  for (uint32_t r = 0; r < roles.count(); ++r) {
    if (roles[r].costs->on_devices) taken_.resize(roles.instances());
  }
}

double OpTimes::compute_factor(const OpRun& run) {
  auto& [known, factor] = iteration_factor_[roles_[run.role].base + run.instance];
  if (known != run.iteration) {
    known = run.iteration;
    factor = plan_.iteration_factor(run.role, run.instance, run.iteration);
  }
  return factor * plan_.op_factor(run.role, run.instance, run.iteration, run.op);
}

int64_t OpTimes::wait_for_host(const OpRun& run, int64_t now, int64_t works) {
  const RoleCosts& costs = *roles_[run.role].costs;
  const uint32_t global = roles_[run.role].base + run.instance;
  const int64_t issued =
      host_[global].issued(costs, costs.class_at(run.instance), run.op, run.iteration, waited_[global]);
  const int64_t late = std::max<int64_t>(0, issued - (now + works));
  if (!taken_.empty()) {
    Taken& taken = taken_[global];
    taken.owed = std::max<int64_t>(0, taken.until - now);
    taken.spare = late;
  }
  if (late > 0 && run.instance == 0 && recorder_.tracks(run.role)) recorder_.launch(late);
  return late;
}

void OpTimes::take_device(uint32_t global, int64_t time, int64_t now, bool computes) {
  Taken& taken = taken_[global];
  taken.until = std::max(taken.until, now) + time;
  if (computes) taken.owed += time;
}

int64_t OpTimes::pay_back(uint32_t global) {
  if (taken_.empty()) return 0;
  Taken& taken = taken_[global];
  const int64_t owed = taken.owed - taken.spare;
  taken.owed = taken.spare = 0;
  return std::max<int64_t>(0, owed);
}

}  // namespace tandem::sim
