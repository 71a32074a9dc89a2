// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whole published training runs against predictions (calibration/data/runs/*.json).
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

/// In the order of the files; the number of `threads` does not change the result. Runs that do not say what
/// was trained, on what or for how many tokens have a failure. Throw InputError for damaged files.
std::vector<RunRow> validate_runs(int threads);

/// A section of a page of VALIDATION.md.
std::string runs_markdown(const std::vector<RunRow>& rows);
/// Every row, all columns, one header line (RFC 4180).
std::string runs_csv(const std::vector<RunRow>& rows);

}  // namespace tandem::calibration
