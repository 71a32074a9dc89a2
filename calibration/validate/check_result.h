// SPDX-License-Identifier: Apache-2.0
#pragma once
// What `tandem check` found on one machine: predicted beside executed, and what it says in sum.
#include <string>
#include <string_view>
#include <vector>

#include "base/host_load.h"
#include "base/json.h"

namespace tandem::calibration {

/// Tells how far apart two are, rather than what each is.
inline bool is_distance(std::string_view metric) {
  return metric == "staleness_distance" || metric == "staleness_by_worker" ||
         metric == "staleness_distance_by_worker";
}

/// One comparison. error = predicted / executed - 1; of a distribution the total variation distance (by
/// worker: the largest of any), of the workers' mean staleness the largest difference of any, in versions.
struct CheckRow {
  std::string model, scheme, metric, rate_limit, adapter;
  int64_t devices = 1, batch = 1;
  double throttle = 1;  ///< of the last worker, as --throttle
  double predicted = 0, executed = 0, error = 0;
  double median = 0;     ///< throughput: of all runs, the fastest of which is `executed`; 0: not known
  double floor = 0;      ///< repeatability: of every other run by itself against the rest, relative
  bool repeated = true;  ///< else one run alone, of which `floor` tells nothing
  bool covered = false;  ///< the prediction's interval holds the executed value
  bool interval = false;
  double low = 0, high = 0;  ///< of the prediction's interval; 0: not known
  bool distance() const { return is_distance(metric); }
  /// The model, and the adapter where it has one: "transformer-tiny with lora:rank=8".
  std::string trained() const { return adapter.empty() ? model : model + " with " + adapter; }
  /// The scheme, and the throttled worker where there is one.
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
  std::string machine, date, versions;  ///< of the profile that was judged
  std::string note;                     ///< what a reader of a kept result must know
  std::string precision = "fp32";
  HostLoad load;  ///< of the machine meanwhile; processors 0: not known
  std::vector<CheckRow> rows;

  struct Summary {
    double mean = 0, most = 0;  ///< absolute errors, distances left out
    double covered = 0;         ///< share of the intervals that hold the executed value
    int64_t intervals = 0;
    int64_t wide = 0;  ///< of these too wide to say anything
  };
  Summary summary() const;
  /// One entry for each comparison off by more than `tolerance`, distances left out: "resnet20-cifar, 2
  /// workers, allreduce: samples_per_second +96.5 %".
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
