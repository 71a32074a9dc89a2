// SPDX-License-Identifier: Apache-2.0
#pragma once
// Training steps that tandem.record kept on anyone's machine ("tandem-record-1"), against predictions.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "answers/question.h"
#include "calibration/traces/trace_summary.h"
#include "schemes/report/report.h"

namespace tandem::calibration {

/// One record and its predictions. Rates are samples/s of all devices together, memory is bytes of one.
struct RecordRow {
  std::string file, name;       ///< `name`: what the record calls itself, else the model
  std::string machine;          ///< "2 NVIDIA A100-SXM4-80GB", or the processor
  std::string torch;            ///< version
  int64_t devices = 1;          ///< processes
  int64_t batch = 1;            ///< samples of a step and process
  double measured = 0;          ///< of the median step
  TraceSummary seen;            ///< its length and its operators by kind
  int64_t allocated = 0;        ///< bytes, at the most; 0: not recorded, as without a GPU
  double watts = 0;             ///< of one GPU while its steps ran; 0: not recorded
  Report predicted;             ///< without other records
  int64_t predicted_bytes = 0;  ///< as `allocated`
  std::optional<schemes::DevicePower> predicted_power;  ///< as `watts`
  /// With compute scaled so that the record of the same training on the fewest devices is met; of those with
  /// more.
  std::optional<Report> anchored;
  int64_t anchor_devices = 0;
};

/// Predicts the training of each record from its "question", in which `given` replaces options; batch and
/// devices are the record's, and input is synthetic unless either says otherwise. Records are of one training
/// if their questions differ in devices, batch and scheme at most. Throws InputError: no record, or one that
/// does not say what was trained, on what or with how many samples.
std::vector<RecordRow> validate_records(const std::vector<std::string>& files, const Values& given,
                                        const Hooks& hooks);

}  // namespace tandem::calibration
