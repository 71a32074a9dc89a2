// SPDX-License-Identifier: Apache-2.0
#pragma once
// One prediction's job, compiled, bound and evaluated on any number of devices.
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/bind/bind.h"
#include "sim/evaluate/evaluate.h"
#include "sim/request.h"
#include "sim/shorter_steps.h"

namespace tandem::sim {

/// What one evaluation of the job gave.
struct Simulated {
  Bound bound;                             ///< its plan is that of all jobs
  EvaluateOptions options;                 ///< how many iterations were asked for
  std::shared_ptr<const Program> program;  ///< of the job that is measured
  /// Where shorter steps stand for this one: the plan of `few`, and that of `more` in the place of `bound`'s.
  std::optional<ShorterSteps> shorter;
  BoundProgram few;
  Trace trace;
  std::vector<double> lengths;  ///< seconds of the steady steps of the optimiser, increasing
  double rate = 0;              ///< samples/s of all devices
};

/// Of all workers in one step of the optimiser.
double samples_of_all(const Program& program);

/// So many workers that wait for nobody make some rounds first, and only where their rate is not steady yet
/// all that fewer make.
inline constexpr int64_t kManyWorkers = 64;

/// Pauses that all devices of the measured job draw in an iteration, in the mean.
double pauses_per_iteration(const BoundProgram& plan);

/// Keeps a reference to the prediction. Any thread may call: const calls are independent of each other.
class Simulation {
 public:
  explicit Simulation(const Request& prediction);
  const Workload& work() const { return *work_; }
  /// The job compiled, once for each cluster.
  std::shared_ptr<const Program> program(const Cluster& cluster) const;
  /// With the prediction's disturbance and the system's slow devices; `scale` multiplies compute costs.
  /// Throws InputError where the scheme cannot run there.
  Bound bound(const Cluster& cluster, double scale) const;
  /// How many samples each device has in a pass; null: all the job's batch. Cost: with BatchSplit::speed a
  /// simulation of one device for each sort of devices. Throws as split_by_speed().
  std::shared_ptr<const UnlikeBatches> batches(const Cluster& cluster) const;
  /// On one cluster, the job by itself.
  Simulated run(const Cluster& cluster, double scale) const;
  /// The job by itself, or with those beside it. Throws InputError for an iteration that takes no time.
  /// `timeline`: keep spans.
  Simulated run(int64_t devices, double scale, bool beside = false, bool timeline = false) const;
  /// What `run` would give if every transfer took exp(`deviations` * its spread) times as long.
  double rate_if(const Simulated& run, double deviations) const;
  /// The rates of the prediction's job, which is `shared` beside the others, and of those. Cost: two
  /// simulations for each job beside it and one more.
  std::vector<SharedRate> side_by_side(int64_t devices, double scale, double shared) const;

 private:
  std::vector<BoundProgram> plans_beside(int64_t devices, double scale) const;
  Simulated evaluated(Simulated run, const std::vector<BoundProgram>& others, bool timeline) const;
  Simulated prepared(const Cluster& cluster, double scale) const;
  BoundProgram plan_of(int64_t micro_batches, const Cluster& cluster, double scale) const;
  void gather_buckets(CostInput& in) const;
  void order_buckets(CostInput& in) const;
  std::shared_ptr<const UnlikeBatches> with_buckets(const UnlikeBatches& batches, const Cluster& cluster,
                                                    const std::vector<int64_t>& buckets,
                                                    const std::vector<uint32_t>& order = {}) const;
  void slow_down(BoundProgram& plan, const Cluster& cluster) const;
  int32_t iterations(const Simulated& run) const;
  int64_t steps(const Program& program, int64_t in_iteration) const;
  int64_t steps_with_pauses(const BoundProgram& plan, int64_t least) const;

  const Request& p_;
  std::shared_ptr<Programs> programs_;
  std::shared_ptr<const Workload> work_;
  mutable std::mutex split_lock_;
  mutable std::vector<std::pair<Cluster, std::shared_ptr<const UnlikeBatches>>> split_;
};

}  // namespace tandem::sim
