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
  if (calm_) return 1;
  auto& [known, factor] = iteration_factor_[roles_[run.role].base + run.instance];
  if (known != run.iteration) {
    known = run.iteration;
    factor = plan_.iteration_factor(run.role, run.instance, run.iteration);
  }
  return factor * plan_.op_factor(run.role, run.instance, run.iteration, run.op);
}

int64_t OpTimes::compute(const OpRun& run, int64_t now) {
  const EventRole& role = roles_[run.role];
  const uint32_t c = role.costs->class_at(run.instance), global = role.base + run.instance;
  const int64_t works = scaled(role.costs->duration[c][run.op], compute_factor(run)).ps;
  if (!launched(role.ops[run.op])) return works;
  const int64_t late =
      host_[global].issued(*role.costs, c, run.op, run.iteration, waited_[global]) - (now + works);
  if (!taken_.empty()) {
    Taken& taken = taken_[global];
    taken.owed = std::max<int64_t>(0, taken.until - now);
    taken.spare = std::max<int64_t>(0, late);
  }
  if (late <= 0) return works;
  if (run.instance == 0 && recorder_.tracks(run.role)) recorder_.launch(late);
  return works + late;
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
