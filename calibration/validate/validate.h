// SPDX-License-Identifier: Apache-2.0
#pragma once
// Predictions against published measurements (calibration/data/published/*.json).
#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "calibration/validate/validate_staleness.h"

namespace tandem::calibration {

/// One published figure beside its predictions.
struct ValidationRow {
  std::string file, source, system, model, scheme, precision, input, note, doubtful;
  std::string recipe;       ///< named by the series; empty: the scheme's own
  std::string reason;       ///< why the prediction is off, where known
  std::string fitted;       ///< what was set on it together with other rows; empty = nothing
  std::string gives;        ///< the figure that was taken from this very row, which is not scored
  std::string generation;   ///< architecture of its devices: "volta"
  bool held_out = false;    ///< of a file held_out_*, and nothing was set on it
  bool in_kernels = false;  ///< its series' one-device rate is among those that the stock curves rest on
  std::string family;       ///< "cnn", "transformer", "recurrent", "other"
  int64_t devices = 1, nodes = 1, batch = 1;
  std::string unit;
  double published = 0;   ///< samples/s, or relative rate where `relative`
  double deviation = 0;   ///< standard deviation of the runs of which `published` is the mean; 0: not said
  bool relative = false;  ///< only ratios between rows of the series mean anything
  bool rate_assumed = false;  ///< the absolute rate rests on a guessed batch or epoch count: not compared
  bool is_anchor = false;     ///< the row that the anchored predictions of its series are made to meet
  double anchor_devices = 0;
  double anchored = 0;                 ///< predicted samples/s with the anchor, 0 on a relative series
  double unanchored = 0;               ///< predicted samples/s from datasheet and stock curves alone
  double low = 0, high = 0;            ///< interval of the anchored prediction
  double rate_low = 0, rate_high = 0;  ///< interval of the prediction without anchor; 0 of several parts
  double published_speedup = 0,
         predicted_speedup = 0;  ///< against the anchor row's rate; 0 on the anchor row
  std::string error;             ///< why no prediction could be made
  std::string left_out;          ///< what of its source no row of the file holds
  double speedup_error() const { return predicted_speedup / published_speedup - 1; }
  double rate_error() const { return unanchored / published - 1; }
};

/// Runs every series of `files` (empty = all of calibration/data/published). Series run on `threads`
/// threads; the result does not depend on their number. `progress(done, total)` may be empty.
std::vector<ValidationRow> validate(const std::vector<std::string>& files, int threads,
                                    const std::function<void(int, int)>& progress);

/// VALIDATION.md without the list of its pages: aims, intervals, a table by architecture, known gaps.
std::string validation_markdown(const std::vector<ValidationRow>& rows);
/// Sections of its pages: errors by group with the worst rows, and the sources. Links count from the root.
std::string rates_markdown(const std::vector<ValidationRow>& rows);
std::string sources_markdown(const std::vector<ValidationRow>& rows);
/// Every row of one source, all columns, one header line (RFC 4180).
std::string validation_csv(const std::vector<ValidationRow>& rows, const std::string& file);
/// {"schema": "tandem-validation-1", "aims": [...], "summary": [...], "groups": [...], "rows": [...],
/// "staleness": [...]}.
std::string validation_json(const std::vector<ValidationRow>& rows,
                            const std::vector<StalenessRow>& staleness);

}  // namespace tandem::calibration
