// SPDX-License-Identifier: Apache-2.0
#pragma once
// The results of `tandem check` on one machine: predicted and executed values, and their summary.
#include <string>
#include <string_view>
#include <vector>

#include "base/host_load.h"
#include "base/json.h"

namespace tandem::calibration {

/// Whether a metric is a distance between the two rather than a value of each.
inline bool is_distance(std::string_view metric) {
  return metric == "staleness_distance" || metric == "staleness_by_worker" ||
         metric == "staleness_distance_by_worker";
}

/// One comparison. error = predicted / executed - 1; for a distribution the total variation distance (by
/// worker: the largest), for the workers' mean staleness the largest difference, in versions.
struct CheckRow {
  std::string model, scheme, metric, rate_limit, adapter;
  int64_t devices = 1, batch = 1;
  double throttle = 1;  ///< of the last worker, as --throttle
  double predicted = 0, executed = 0, error = 0;
  double median = 0;     ///< throughput: of all runs, of which `executed` is the fastest; 0: unknown
  double floor = 0;      ///< repeatability: every other run against the rest, relative
  bool repeated = true;  ///< else a single run, for which `floor` is meaningless
  bool covered = false;  ///< the executed value is inside the prediction's interval
  bool interval = false;
  double low = 0, high = 0;  ///< the prediction's interval; 0: unknown
  bool distance() const { return is_distance(metric); }
  /// The model, with its adapter if it has one: "transformer-tiny with lora:rank=8".
  std::string trained() const { return adapter.empty() ? model : model + " with " + adapter; }
  /// The scheme, with the throttled worker if there is one.
  std::string how() const;
  /// One text for each of kCheckColumns.
  std::vector<std::string> cells() const;
};

struct CheckColumn {
  const char* head;
  bool number;
};
inline constexpr CheckColumn kCheckColumns[] = {
    {"model", false},  {"batch", true},     {"workers", true},  {"scheme", false}, {"links", false},
    {"metric", false}, {"predicted", true}, {"executed", true}, {"error", true},   {"repeats within", true}};

struct CheckResult {
  std::string machine, date, versions;  ///< of the profile that was used
  std::string note;                     ///< what readers of a kept result must know
  std::string precision = "fp32";
  HostLoad load;  ///< of the machine during the check; processors 0: unknown
  std::vector<CheckRow> rows;

  struct Summary {
    double mean = 0, most = 0;  ///< absolute errors, without distances
    double covered = 0;         ///< share of the intervals that contain the executed value
    int64_t intervals = 0;
    int64_t wide = 0;  ///< of these too wide to be meaningful
  };
  Summary summary() const;
  /// One entry per comparison with an error above `tolerance`, without distances: "resnet20-cifar, 2 workers,
  /// allreduce: samples_per_second +96.5 %".
  std::vector<std::string> failures(double tolerance) const;

  /// A "tandem-check-1" document, as the command writes it.
  std::string to_json() const;
  /// Throws InputError with the place of what is wrong.
  static CheckResult from_json(const Json& document);
};

/// The committed results (calibration/data/executed), as a section of VALIDATION.md: by group of cases.
/// Throws InputError.
std::string executed_markdown();

}  // namespace tandem::calibration
