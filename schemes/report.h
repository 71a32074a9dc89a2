#pragma once
// What both engines return: CONTRACT "tandem-report-1". JSON in, JSON out; plots read only the JSON. Floor 2.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/histogram.h"
#include "base/json.h"
#include "base/units.h"
#include "schemes/program.h"

namespace tandem {

/// One execution of one op by one instance.
struct Span {
  uint32_t role = 0, instance = 0, iteration = 0, op = 0;
  Time start, end;
  auto operator<=>(const Span&) const = default;
};

struct LinkUse {
  std::string name;
  double busy = 0;  ///< share of wall time, of its usable capacity
  Bytes bytes;      ///< in all steady iterations
};

/// sim/memory.h says what is counted. An executor that has no allocator of its own leaves the last two at 0.
struct MemoryUse {
  Bytes parameters, gradients, optimizer, activations, workspace, buffers, capacity;
  Bytes reserved;    ///< by the framework's allocator
  Bytes nvidia_smi;  ///< reserved, the driver's context and the communication library
  Bytes total() const { return parameters + gradients + optimizer + activations + workspace + buffers; }
  Bytes needed() const { return std::max(total(), nvidia_smi); }
  bool fits() const { return needed() <= capacity; }
};

/// Of each device of a role.
struct RoleMemory {
  std::string role;
  int64_t devices = 1;
  MemoryUse memory;
};

struct TimeShare {
  double compute = 0, exposed_communication = 0, input = 0, idle = 0;  ///< of worker 0's wall time; sum 1
};

/// A span with its names, for timelines (JSON key "timeline": role, instance, lane, label, iteration, start,
/// end).
struct TimelineEntry {
  std::string role, lane, label;
  uint32_t instance = 0, iteration = 0;
  double start_seconds = 0, end_seconds = 0;
};

struct Report {
  std::string engine = "sim", evaluator, evaluator_reason;
  uint64_t seed = 0;
  std::vector<std::pair<std::string, std::string>> inputs;  ///< resolved, in order; values are text
  int64_t devices = 1, batch_per_device = 1;
  int64_t samples_per_iteration = 1;  ///< of all devices together, all micro-batches of a step
  double samples_per_second = 0;
  struct Interval {
    double low = 0, high = 0, level = 0.9;
  } interval;
  double iteration_median = 0, iteration_p05 = 0, iteration_p95 = 0;  ///< seconds
  double speedup = 1, scaling_efficiency = 1;  ///< against one device, same batch per device
  Histogram staleness;                         ///< versions; empty without stores
  std::vector<Histogram> staleness_by_worker;  ///< of the first 64, where known
  TimeShare time_share;
  MemoryUse memory;  ///< of the role that needs most
  std::vector<RoleMemory> memory_by_role;
  struct Bottleneck {
    std::string resource, explanation;
    double share = 0;
  } bottleneck;
  std::vector<LinkUse> links;  ///< busiest first
  bool calibrated = false;
  std::vector<std::string> extrapolates, notes;
  int64_t simulated_events = 0;
  double wall_seconds = 0;
  /// Of a real run on real data or numbers; JSON key "training", left out when there was none.
  struct Training {
    bool real = false;
    double first_loss = 0, last_loss = 0;  ///< mean over workers, of the first and the last iteration;
                                           ///< not a number after training that diverged
    double accuracy = -1;  ///< share of held-out samples classified rightly; < 0: not measured
  } training;
  std::vector<TimelineEntry> timeline;  ///< a few instances, a few iterations

  /// One JSON document; `reproducible` leaves out "run" (wall time). Non-finite numbers never appear.
  std::string to_json(bool reproducible = false) const;
  static Report from_json(const Json& document);
};

/// {"schema": "tandem-reports-1", "reports": [...]} for several, the report itself for one.
std::string reports_to_json(const std::vector<Report>& reports, bool reproducible);
/// Reads either form from a file.
std::vector<Report> load_reports(const std::string& path);

}  // namespace tandem
