// SPDX-License-Identifier: Apache-2.0
#pragma once
// What machines drew while they trained (calibration/data/power/*.json), and what power limits left of their
// speed (calibration/data/power_limits/*.json), against predictions.
#include <cstdint>
#include <string>
#include <vector>

namespace tandem::calibration {

/// Watts that a machine or its device drew, against those of plan/power.h.
struct PowerRow {
  std::string machine, model, system, source;
  int64_t devices = 0;
  bool node = false;      ///< of a whole node at the wall; false: of one device
  bool held_out = false;  ///< no figure of the model or of plan/power was fitted to it
  double published = 0, predicted = 0, low = 0, high = 0;
  /// Predicted of a step that takes as long as the run logged, where that is longer than predicted, its
  /// devices standing still meanwhile: the error of watts without that of the rate. Else `predicted`.
  double at_rate = 0;
  double error() const { return predicted / published - 1; }
  double error_at_rate() const { return at_rate / published - 1; }
};

/// One device under a power limit.
struct LimitRow {
  std::string machine, model;
  int64_t batch = 0;
  double limit = 0;       ///< watts
  bool held_out = false;  ///< the clock was not fitted to it
  /// Of the speed at rated power. The interval is that of the limit alone.
  double published = 0, predicted = 0, low = 0, high = 0;
  double published_watts = 0, predicted_watts = 0;
  double error() const { return predicted / published - 1; }
  double watts_error() const { return predicted_watts / published_watts - 1; }
};

struct PowerRows {
  std::vector<PowerRow> drawn;
  std::vector<LimitRow> limits;
};

/// In the order of the files; the number of `threads` does not change the result. Rows that memory does not
/// hold are left out of `limits`. Throws InputError for damaged files.
PowerRows validate_power(int threads);

/// Sections of a page of VALIDATION.md.
std::string power_markdown(const PowerRows& rows);
/// Every row, all columns, one header line (RFC 4180). Rows of limits have a batch and a limit in
/// watts, and are "of" the speed: shares of that at rated power.
std::string power_csv(const PowerRows& rows);

}  // namespace tandem::calibration
