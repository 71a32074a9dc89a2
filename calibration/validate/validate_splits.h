// SPDX-License-Identifier: Apache-2.0
#pragma once
// Predictions of models that are split over devices, against published measurements
// (calibration/data/splits/*.json).
#include <string>
#include <vector>

#include "schemes/report/report.h"
#include "schemes/setup/recompute.h"

namespace tandem::calibration {

/// Rates in samples/s of all devices.
struct SplitPrediction {
  int64_t nodes = 1;
  double predicted = 0;                      ///< from datasheet and stock curves
  double low = 0, high = 0;                  ///< its 90 % interval
  std::vector<schemes::ErrorSource> errors;  ///< that it comes from
  /// 40 % of the devices' peak, less the pipeline's bubble (p - 1) / (v m + p - 1); communication is free.
  double dull = 0;
  std::string failure;  ///< why no prediction could be made
};

/// One published rate, its prediction and the trivial model's.
struct SplitRow : SplitPrediction {
  std::string file, source, system, model, scheme, precision, adapter, note, doubtful;
  int64_t devices = 1, batch = 1;
  Recompute recompute = {};
  bool held_out = false;   ///< nothing was fitted to it
  bool is_anchor = false;  ///< its measured rate scales the anchored predictions of its file
  double published = 0;    ///< samples/s of all devices
};

/// In the order of `files`, default all of calibration/data/splits; the number of `threads` does not change
/// the result. Throws InputError for damaged files.
std::vector<SplitRow> validate_splits(const std::vector<std::string>& files, int threads);

/// Section of VALIDATION.md: a table by file with the errors of a trivial model and ours, and the rows with
/// the largest errors.
std::string splits_markdown(const std::vector<SplitRow>& rows);
/// One line per row, for the CSV next to the document.
std::string splits_csv(const std::vector<SplitRow>& rows);

}  // namespace tandem::calibration
