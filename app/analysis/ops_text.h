// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where two reports disagree (answers/compare_ops.h), as text.
#include <string>
#include <vector>

#include "answers/compare_ops.h"
#include "app/console/table.h"

namespace tandem::app {

/// One row per op or lane; `names`: of the two sides, such as "predicted" and "executed".
Table op_table(const std::vector<OpPair>& pairs, const std::string& a_name, const std::string& b_name,
               std::size_t most);

/// "Largest disagreement: backward conv2 (compute): executed 4.20 ms, predicted 3.10 ms (+35 %), 12 % of an
/// iteration." Empty when there is nothing to compare.
std::string largest_disagreement(const OpComparison& comparison, const Report& a, const Report& b);

}  // namespace tandem::app
