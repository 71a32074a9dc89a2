// SPDX-License-Identifier: Apache-2.0
#pragma once
// The request to the simulator: a job, a system, devices, and how to price and disturb them.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "schemes/setup/job.h"
#include "schemes/setup/programs.h"
#include "sim/bound/bound_program.h"
#include "sim/bound/speeds.h"
#include "sim/cost/measured_collectives.h"
#include "sim/cost/priced_collectives.h"
#include "topologies/system.h"

namespace tandem::sim {

/// A published or measured rate that the prediction is made to meet: compute costs are scaled so that
/// `devices` devices reach `rate` samples/s.
struct Anchor {
  double rate = 0;
  int64_t devices = 1;
  int64_t batch = 0;                       ///< per device when it was measured; 0 = the prediction's
  const System* system = nullptr;          ///< the system it was measured on; null = the prediction's
  const ResolvedScheme* scheme = nullptr;  ///< the scheme it was measured under; null = the prediction's
  std::optional<double> scale = {};        ///< the factor (anchored_scale), if known: it is not fitted again
};

/// Another job on the same machine, on the next free devices; it repeats while the predicted one runs.
struct JobBeside {
  Job job;
  int64_t devices = 1;
};

/// A network that is trained alternately with the predicted one, on the same devices and samples
/// (sim/networks.h).
struct NetworkThen {
  const Graph* graph = nullptr;
  double passes = 1;   ///< of each sample of the predicted network
  int64_t batch = 32;  ///< samples per device
};

/// How samples are divided among devices with different samples.
enum class BatchSplit : uint8_t {
  even,   ///< all get the job's batch
  speed,  ///< the same total in proportion to each device's own rate (sim/batch_split.h)
};

struct Request {
  Job job;
  const System* system = nullptr;
  int64_t devices = 1;
  BatchSplit split = BatchSplit::even;
  /// Changes of the scheme's memory habits: keys and values for memory_habits().
  std::vector<std::pair<std::string, std::string>> memory;
  int32_t iterations = 0;  ///< steps of the optimiser; 0: enough for steady figures
  uint64_t seed = 1;
  std::string profile = "stock";  ///< kernel costs: a name in calibration/profiles or a file
  std::shared_ptr<const MeasuredCollectives> measured;  ///< corrects the library's collectives; null: none
  std::optional<Anchor> anchor;
  Speeds speeds;
  std::optional<Disturbance> disturbance;  ///< unset: the step-time jitter of the system's host
  Stragglers stragglers{};                 ///< in addition
  Pauses pauses{};
  /// Jobs whose transfers share the links; priced by the prediction's profile.
  std::vector<JobBeside> beside;
  std::vector<NetworkThen> then;              ///< in order
  int64_t own_executions = kOwnExecutions;    ///< as in CostInput
  bool timeline = true;                       ///< the report has one
  std::shared_ptr<Programs> programs;         ///< shared with other predictions; null: each compiles its own
  std::shared_ptr<PricedCollectives> priced;  ///< of `system`, shared with other predictions; null: none are
  bool check_memory = true;  ///< false: simulate even what does not fit; speed-ups from one device
};

}  // namespace tandem::sim
