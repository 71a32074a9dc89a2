// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whole published training runs against predictions (calibration/data/runs/*.json), and what machines drew
// while they trained (calibration/data/power/*.json).
#include <cstdint>
#include <string>
#include <vector>

namespace tandem::calibration {

/// One published run. Hours are device-hours for 10^9 tokens, so that runs of all lengths compare: those of
/// the publisher over the tokens, or what its rate without evaluations comes to.
struct RunRow {
  std::string file, name, family, model, system, scheme, precision, source;
  std::string includes;  ///< what the published hours hold besides training; empty: nothing that is known
  std::string assumed;   ///< what no source says
  int64_t devices = 0;
  double tokens = 0;  ///< of the whole run; 0: not published
  double published = 0;
  double predicted = 0;      ///< without failures, evaluation and checkpoints
  double low = 0, high = 0;  ///< 90 % interval of `predicted`
  std::string failure;       ///< why there is no prediction
  double error() const { return predicted / published - 1; }
  /// Whether the published hours are of training alone, so that the error is the prediction's.
  bool judged() const { return failure.empty() && includes.empty(); }
};

/// Watts that a machine or its device drew, against those of plan/power.h.
struct PowerRow {
  std::string machine, model, system, source;
  int64_t devices = 0;
  bool node = false;      ///< of a whole node at the wall; false: of one device
  bool held_out = false;  ///< no figure of plan/power was fitted to it
  double published = 0, predicted = 0, low = 0, high = 0;
  double error() const { return predicted / published - 1; }
};

/// In the order of the files; the number of `threads` does not change the result. Runs that do not say what
/// was trained, on what or for how many tokens have a failure. Throw InputError for damaged files.
std::vector<RunRow> validate_runs(int threads);
std::vector<PowerRow> validate_power(int threads);

/// Sections of a page of VALIDATION.md.
std::string runs_markdown(const std::vector<RunRow>& rows);
std::string power_markdown(const std::vector<PowerRow>& rows);
/// Every row, all columns, one header line (RFC 4180).
std::string runs_csv(const std::vector<RunRow>& rows);
std::string power_csv(const std::vector<PowerRow>& rows);

}  // namespace tandem::calibration
