// SPDX-License-Identifier: Apache-2.0
#pragma once
// Predictions against published measurements (calibration/data/published/*.json).
#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "calibration/validate/validate_staleness.h"
#include "schemes/report/report.h"

namespace tandem::calibration {

/// One published figure and its predictions.
struct ValidationRow {
  std::string file, source, system, model, scheme, precision, input, note, doubtful;
  std::string recipe;       ///< named by the series; empty: the scheme's own
  std::string reason;       ///< why the prediction is off, if known
  std::string fitted;       ///< the constant fitted to it together with other rows; empty = none
  std::string gives;        ///< the figure taken from this row, which is therefore not scored
  std::string recipe_run;   ///< the recipe that it was predicted with
  std::string width;        ///< of its precision: sim::width_of()
  std::string generation;   ///< architecture of its devices: "volta"
  bool held_out = false;    ///< from a file held_out_*, and nothing was fitted to it
  bool in_kernels = false;  ///< the stock curves were fitted to its series' one-device rate
  std::string family;       ///< "cnn", "transformer", "recurrent", "other"
  int64_t devices = 1, nodes = 1, batch = 1;
  std::string unit;
  double published = 0;       ///< samples/s, or a relative rate if `relative`
  double deviation = 0;       ///< standard deviation of the runs averaged in `published`; 0: unknown
  bool relative = false;      ///< only ratios between rows of the series are meaningful
  bool rate_assumed = false;  ///< the absolute rate assumes a batch size or epoch count: not compared
  bool is_anchor = false;     ///< the row that its series' anchored predictions are made to meet
  double anchor_devices = 0;
  double anchored = 0;         ///< predicted samples/s with the anchor, 0 on a relative series
  schemes::Report::Rate rate;  ///< predicted from datasheet and stock curves only; its errors are
                               ///< unknown with several parts
  double low = 0, high = 0;    ///< interval of the anchored prediction
  double published_speedup = 0,
         predicted_speedup = 0;  ///< relative to the anchor row's rate; 0 on the anchor row
  std::string error;             ///< why no prediction could be made
  std::string left_out;          ///< parts of its source that no row covers
  double speedup_error() const { return predicted_speedup / published_speedup - 1; }
  double rate_error() const { return rate.samples_per_second / published - 1; }
};

/// Runs every series of `files` (empty = all of calibration/data/published). Series run on `threads`
/// threads; the result does not depend on their number. `progress(done, total)` may be empty.
std::vector<ValidationRow> validate(const std::vector<std::string>& files, int threads,
                                    const std::function<void(int, int)>& progress);

/// VALIDATION.md without the list of its pages: aims, intervals, a table by architecture, known gaps.
std::string validation_markdown(const std::vector<ValidationRow>& rows);
/// Sections of its pages: errors by group with the worst rows, and the sources. Links are relative to the
/// root.
std::string rates_markdown(const std::vector<ValidationRow>& rows);
std::string sources_markdown(const std::vector<ValidationRow>& rows);
/// Every row of one source, all columns, one header line (RFC 4180).
std::string validation_csv(const std::vector<ValidationRow>& rows, const std::string& file);
/// {"schema": "tandem-validation-1", "aims": [...], "summary": [...], "groups": [...], "rows": [...],
/// "staleness": [...]}.
std::string validation_json(const std::vector<ValidationRow>& rows,
                            const std::vector<StalenessRow>& staleness);

}  // namespace tandem::calibration
