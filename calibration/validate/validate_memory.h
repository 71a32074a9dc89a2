// SPDX-License-Identifier: Apache-2.0
#pragma once
// Predicted device memory against published measurements (calibration/data/memory/*.json).
#include <string>
#include <vector>

#include "base/units.h"
#include "schemes/setup/offload.h"
#include "schemes/setup/recompute.h"

namespace tandem::calibration {

/// One published figure and its prediction.
struct MemoryRow {
  std::string file, source, gpu, model, adapter, scheme, precision, optimizer, habits, note, doubtful;
  int64_t devices = 1, batch = 1;
  Recompute recompute = {};
  Offload offload = {};
  bool first = false;     ///< of a device of the first stage, not of the fullest one
  bool held_out = false;  ///< no constant of the model was fitted with its file in view
  /// "allocated" (max_memory_allocated), "reserved" (max_memory_reserved), "nvidia_smi", or "fits".
  std::string metric;
  Bytes published, predicted;  ///< of "fits": capacity of the card, and need (nvidia_smi)
  bool fitted = false;         ///< "fits": whether the run did
  std::string failure;         ///< why no prediction could be made
  bool predicted_to_fit() const { return predicted <= published; }
  double error() const { return static_cast<double>(predicted.n) / static_cast<double>(published.n) - 1; }
};

/// In the order of the files. Throws InputError for damaged files.
std::vector<MemoryRow> validate_memory();

/// Section of VALIDATION.md: how memory is counted, a table by metric and kind of model with held-out files
/// apart, what fits, and the rows with the largest errors.
std::string memory_markdown(const std::vector<MemoryRow>& rows);
/// One line per row, for the CSV next to the document.
std::string memory_csv(const std::vector<MemoryRow>& rows);

}  // namespace tandem::calibration
