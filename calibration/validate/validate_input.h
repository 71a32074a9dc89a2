// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs with and without input: the published ratio of their rates against the predicted one
// (calibration/data/input_pairs.json).
#include <cstdint>
#include <string>
#include <vector>

#include "base/rooms.h"

namespace tandem::calibration {

/// One run, with and without input. Ratios are with input / without. Both predictions compute at the speed
/// that gives the published rate without input, so the ratio depends only on input.
struct InputRow {
  std::string system, model, precision, loader;
  int64_t batch = 0, devices = 0, workers = 0;
  double without = 0;  ///< samples/s, published
  double published = 1, predicted = 1;
  double host = 0;  ///< samples/s that the hosts can decode, as described; 0: nothing is decoded
};

/// Every run of the file's tables that is published both ways. Throws InputError. Simulates each both ways.
std::vector<InputRow> validate_input();
/// A section of VALIDATION.md.
std::string input_markdown(const std::vector<InputRow>& rows);
/// Every row, all columns, one header line (RFC 4180).
std::string input_csv(const std::vector<InputRow>& rows);

}  // namespace tandem::calibration
