// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is asked of the simulator: a job, a system, devices, and how to price and disturb them.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "schemes/job.h"
#include "schemes/programs.h"
#include "sim/bound/bound_program.h"
#include "sim/bound/speeds.h"
#include "sim/cost/measured_collectives.h"
#include "topologies/system.h"

namespace tandem::sim {

/// A published or measured rate that the prediction is made to meet: compute costs are scaled so that
/// `devices` devices give `rate` samples/s.
struct Anchor {
  double rate = 0;
  int64_t devices = 1;
  int64_t batch = 0;                       ///< per device when it was measured; 0 = the prediction's own
  const System* system = nullptr;          ///< on which it was measured; null = the prediction's own
  const ResolvedScheme* scheme = nullptr;  ///< under which it was measured; null = the prediction's own
};

/// Another job on the same machine, on the next free devices; it repeats while the predicted one runs.
struct JobBeside {
  Job job;
  int64_t devices = 1;
};

/// A network that is trained in turn with the predicted one, on the same devices and samples
/// (sim/networks.h).
struct NetworkThen {
  const Graph* graph = nullptr;
  double passes = 1;   ///< of each sample of the predicted network
  int64_t batch = 32;  ///< samples per device
};

/// How samples are divided among devices that train on samples of their own.
enum class BatchSplit : uint8_t {
  even,   ///< all get the job's batch
  speed,  ///< in proportion to the rate that each has alone, as many in all (sim/batch_split.h)
};

struct Request {
  Job job;
  const System* system = nullptr;
  int64_t devices = 1;
  BatchSplit split = BatchSplit::even;
  /// What changes the scheme's memory habits: keys and values for memory_habits().
  std::vector<std::pair<std::string, std::string>> memory;
  int32_t iterations = 0;  ///< steps of the optimiser; 0: enough for steady figures, more where arrival
                           ///< order counts
  uint64_t seed = 1;
  std::string profile = "stock";  ///< kernel costs: a name in calibration/profiles or a file
  std::shared_ptr<const MeasuredCollectives> measured;  ///< correct the library's collectives; null: none
  std::optional<Anchor> anchor;
  /// What the anchor comes to (anchored_scale), where that is known: it is not fitted again.
  std::optional<double> anchor_scale;
  Speeds speeds;
  std::optional<Disturbance> disturbance;  ///< unset: the step-time jitter of the system's host
  Stragglers stragglers{};                 ///< on top of that
  Pauses pauses{};
  /// Jobs whose transfers share the links; priced by the prediction's profile.
  std::vector<JobBeside> beside;
  std::vector<NetworkThen> then;            ///< in order
  int64_t own_executions = kOwnExecutions;  ///< as CostInput's
  bool timeline = true;                     ///< the report has one
  std::shared_ptr<Programs> programs;       ///< shared with other predictions; null: each compiles its own
  bool check_memory = true;  ///< false: simulate also what does not fit, and count from one device
};

}  // namespace tandem::sim
