// SPDX-License-Identifier: Apache-2.0
#pragma once
// Predicted against published rounds of many senders into one port (calibration/data/incast.json).
#include <string>
#include <vector>

#include "base/rooms.h"

namespace tandem::calibration {

struct IncastRow {
  std::string source, what, metric, buffer;  ///< buffer: "-" if the timeouts are given
  enum class Is : uint8_t { equal, at_least, at_most } is = Is::equal;
  double published = 0, predicted = 0;
  /// For bounds: it holds. For figures: within a quarter.
  bool met() const;
};

/// Every row of the file. Throws InputError.
std::vector<IncastRow> validate_incast();
/// A section of VALIDATION.md.
std::string incast_markdown(const std::vector<IncastRow>& rows);

}  // namespace tandem::calibration
