// SPDX-License-Identifier: Apache-2.0
#pragma once
// A comparison as data: pair by pair, and of several machines as a table.
#include <optional>
#include <string>
#include <vector>

#include "answers/board.h"
#include "app/console/report_text.h"

namespace tandem::app {

/// Remarks on a changed board, one per pair.
struct BoardAnswer {
  Worth worth;
  std::optional<Placements> a, b;
};

/// What is compared, in words.
struct Names {
  std::string a, b;
};

/// "only B holds it, A needs 33 of 16 GiB" if not both do, else why().
std::string reason_text(const ReportPair& pair);

/// Makes speed-up and efficiency of both relative to the same number of devices: the fewest on which either
/// holds the model, if both sides were asked and have them. Cost: a prediction of a rate.
void same_base(ReportPair& pair);

/// `pairs`: at least one. A "tandem-compare-1" document; `boards`: empty, or one per pair.
std::string compare_csv(const std::vector<ReportPair>& pairs);
std::string compare_json(const std::vector<ReportPair>& pairs, const Names& names,
                         const std::vector<BoardAnswer>& boards);

/// Reports of sides A, B, C ..., each with the report that it is relative to, or none.
struct OfSeveral {
  char side = 'A';
  Report report;
  const Report* base = nullptr;
};

/// One row each; the model if they differ. `names`: what distinguishes the sides.
Table several_table(const std::vector<OfSeveral>& rows, const std::vector<std::string>& names);
/// A "tandem-compare-several-1" document.
std::string several_json(const std::vector<OfSeveral>& rows, const std::vector<std::string>& names);

}  // namespace tandem::app
