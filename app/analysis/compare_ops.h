// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where two reports disagree: their timelines compared op by op and lane by lane.
#include <optional>
#include <string>
#include <vector>

#include "app/console/table.h"
#include "schemes/report/report.h"

namespace tandem::app {

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

/// One row per op or lane; `names`: of the two sides, such as "predicted" and "executed".
Table op_table(const std::vector<OpPair>& pairs, const std::string& a_name, const std::string& b_name,
               std::size_t most);

/// "Largest disagreement: backward conv2 (compute): executed 4.20 ms, predicted 3.10 ms (+35 %), 12 % of an
/// iteration." Empty when there is nothing to compare.
std::string largest_disagreement(const OpComparison& comparison, const Report& a, const Report& b);

}  // namespace tandem::app
