// SPDX-License-Identifier: Apache-2.0
#pragma once
// What `gpu_visit.py --call multi` measured on someone's machine with several GPUs ("tandem-visit-1"),
// against predictions: rates, staleness and watts of trainings, times of all-reduces.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "answers/values.h"
#include "schemes/report/report.h"

namespace tandem::calibration {

inline constexpr std::string_view kVisitSchema = "tandem-visit-1";
/// Whose kernels predict the executor's where --profile names no other, scaled to the machine's chip.
inline constexpr std::string_view kExecutorProfile = "h200";

/// One training. Rates are samples/s of all devices together.
struct VisitTraining {
  std::string model, precision, scheme;
  int64_t batch = 1, devices = 1;  ///< `batch`: of a device
  double measured = 0;
  std::optional<double> staleness = {}, watts = {};  ///< mean versions; of a device. Unset: not measured
  Report predicted;
  /// With compute scaled so that the training of the same model on one device is met; of those with more.
  std::optional<Report> anchored = {};
};

struct VisitAllReduce {
  int64_t devices = 2, bytes = 1;
  double measured = 0, predicted = 0;  ///< seconds
  double low = 0, high = 0;            ///< 90 % interval of `predicted`; 0 where the library has none
};

struct VisitJudged {
  std::string file, machine, date, system;
  std::vector<VisitTraining> trainings;
  std::vector<VisitAllReduce> all_reduces;
};

/// Predicts all that a visit's file holds of several GPUs. `given`: system (else the one in the file) and
/// profile (else kExecutorProfile). Throws InputError: no such file, one without trainings or all-reduces of
/// several GPUs, one that does not say on what system, a value that is none.
VisitJudged judge_visit(const std::string& file, const Values& given);

/// Whether a file is such a visit's, by its schema. Throws InputError where it is no JSON.
bool is_visit(const std::string& file);

}  // namespace tandem::calibration
