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

/// The result of one evaluation of the job.
struct Simulated {
  Bound bound;                             ///< its plan is that of all jobs
  EvaluateOptions options;                 ///< the iterations that were asked for
  std::shared_ptr<const Program> program;  ///< of the measured job
  /// If shorter steps are simulated instead: the plan of `few`, and that of `more` in place of `bound`'s.
  std::optional<ShorterSteps> shorter;
  BoundProgram few;
  double scale = 1;  ///< of compute costs
  Trace trace;
  std::vector<double> lengths;  ///< seconds of the steady steps of the optimiser, increasing
  double rate = 0;              ///< samples/s of all devices
};

/// Of all workers in one step of the optimiser.
double samples_of_all(const Program& program);

/// Asynchronous workers above this number simulate fewer rounds first, and as many as fewer workers do only
/// if their rate is not steady yet.
inline constexpr int64_t kManyWorkers = 64;

/// Mean number of pauses of all devices of the measured job per iteration.
double pauses_per_iteration(const BoundProgram& plan);

/// Keeps a reference to the prediction. Any thread may call: const calls are independent of each other.
class Simulation {
 public:
  explicit Simulation(const Request& prediction);
  const Workload& work() const { return *work_; }
  /// The compiled job, once per cluster.
  std::shared_ptr<const Program> program(const Cluster& cluster) const;
  /// With the prediction's disturbance and the system's slow devices; `scale` multiplies compute costs.
  /// Throws InputError if the scheme cannot run there.
  Bound bound(const Cluster& cluster, double scale) const;
  /// Samples of each device in a pass; null: all the job's batch. Cost: with BatchSplit::speed a simulation
  /// of one device for each kind of device. Throws as split_by_speed().
  std::shared_ptr<const UnlikeBatches> batches(const Cluster& cluster) const;
  /// On one cluster, the job by itself.
  Simulated run(const Cluster& cluster, double scale) const;
  /// The job by itself, or with the concurrent ones. Throws InputError for an iteration that takes no time.
  /// `timeline`: keep spans.
  Simulated run(int64_t devices, double scale, bool beside = false, bool timeline = false) const;
  /// The job by itself if nothing varied, and without `contention` no transfer slowed another:
  /// sim::undisturbed(), sim::quiet_throughput().
  Simulated undisturbed(int64_t devices, bool contention) const;
  /// A shorter simulation whose rate changes as that of `run` does: a few steps where steps differ only by
  /// noise, and steps of fewer micro-batches where they have many. Its rate is known.
  Simulated brief(const Simulated& run) const;
  /// The rate of `run` if every transfer took exp(`deviations` * its spread) times as long.
  double rate_if(const Simulated& run, double deviations) const;
  /// The rates of the prediction's job, which shares the machine with the others, and of those. Cost: two
  /// simulations per concurrent job and one more.
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
