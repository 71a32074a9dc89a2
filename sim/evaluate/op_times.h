// SPDX-License-Identifier: Apache-2.0
#pragma once
// How long ops take in the event evaluator.
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/bound/bound_program.h"
#include "sim/evaluate/event_roles.h"
#include "sim/evaluate/host_clock.h"
#include "sim/evaluate/recorder.h"

namespace tandem::sim {

/// An op of an instance in an iteration.
struct OpRun {
  uint32_t role = 0, instance = 0, iteration = 0, op = 0;
};

/// From the plan, its disturbances, the clocks of the hosts that issue ops, and what servers take of the
/// devices that they share with workers. For one thread at a time.
class OpTimes {
 public:
  /// All arguments outlive it.
  OpTimes(const BoundProgram& plan, const EventRoles& roles, Recorder& recorder);

  /// From `now` to the end of a compute op, which waits for the host to have issued it where it is launched.
  int64_t compute(const OpRun& run, int64_t now) {
    const EventRole& role = roles_[run.role];
    const Time alone = role.costs->duration[role.costs->class_at(run.instance)][run.op];
    const int64_t works = scaled(alone, calm_ ? 1 : compute_factor(run)).ps;
    if (!launched(role.ops[run.op]) || (!role.issues && taken_.empty())) return works;
    return works + wait_for_host(run, now, works);
  }
  /// Index into BoundProgram::transfers, and the factor on it.
  std::pair<int32_t, double> transfer(const OpRun& run) const {
    const RoleCosts& costs = *roles_[run.role].costs;
    return {costs.transfer[costs.class_at(run.instance)][run.op], transfer_factor(run)};
  }
  double transfer_factor(const OpRun& run) const {
    return calm_ ? 1.0 : plan_.transfer_factor(run.role, run.instance, run.iteration, run.op);
  }
  /// Of what a server does with a message.
  Time service(uint32_t r, uint32_t instance, uint32_t op) const {
    const RoleCosts& costs = *roles_[r].costs;
    return costs.duration[costs.class_at(instance)][op];
  }

  /// The op has ended: what its host issues next may have waited for it.
  void ended(const OpRun& run, int64_t now) {
    const EventRole& role = roles_[run.role];
    const RoleCosts& costs = *role.costs;
    if (role.issues && HostClock::waits_for(costs, role.ops[run.op].kind, run.op, run.iteration))
      host_[role.base + run.instance].ended(costs, costs.class_at(run.instance), run.op, run.iteration, now);
  }
  /// So has an iteration of the instance's compute lane.
  void iteration_ended(uint32_t global, int64_t now) { waited_[global] = now; }

  /// A server's kernels go first on the device that they share with the worker's, which computes or not.
  void take_device(uint32_t global, int64_t time, int64_t now, bool computes);
  /// By how much the instance's op, which would end now, makes up for what servers took meanwhile.
  int64_t pay_back(uint32_t global);

 private:
  /// What servers take of the device on which an instance computes.
  struct Taken {
    int64_t until = 0;  ///< when those that have come are done
    int64_t owed = 0;   ///< by which the op that runs now ends later
    int64_t spare = 0;  ///< of that op, when the device waits for the host
  };
  double compute_factor(const OpRun& run);
  int64_t wait_for_host(const OpRun& run, int64_t now, int64_t works);

  const BoundProgram& plan_;
  const EventRoles& roles_;
  Recorder& recorder_;
  const bool calm_;                                            ///< no disturbance
  std::vector<std::pair<uint32_t, double>> iteration_factor_;  ///< [global instance]: of the iteration named
  std::vector<int64_t> waited_;  ///< [global instance]: end of the compute lane's iteration before
  std::vector<HostClock> host_;  ///< [global instance]
  std::vector<Taken> taken_;     ///< [global instance]; empty: no servers are on devices
};

}  // namespace tandem::sim
