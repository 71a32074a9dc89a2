// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where two reports disagree: their timelines compared op by op and lane by lane.
#include <optional>
#include <string>
#include <vector>

#include "schemes/report/report.h"

namespace tandem::answers {

/// Mean over the workers and iterations of a timeline, per iteration of one worker. An op missing on one side
/// takes no time there.
struct OpPair {
  std::string lane, label;  ///< label empty: the whole lane
  double a = 0, b = 0;      ///< seconds
  double difference() const { return b - a; }
};

struct OpComparison {
  std::vector<OpPair> ops;    ///< largest absolute difference first; without the host lane's waits
  std::vector<OpPair> lanes;  ///< in the order of the lanes
};

/// Empty if either timeline is. Compares only workers; servers' rows have other names.
OpComparison compare_ops(const Report& a, const Report& b);

}  // namespace tandem::answers
