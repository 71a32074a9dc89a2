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
/// Reports of sides A, B, C ..., each with the report that it is relative to, or none.
struct OfSeveral {
  char side = 'A';
  Report report;
  const Report* base = nullptr;
};

/// `unpaired`: reports of A and B without a counterpart.
std::string compare_json(const std::vector<ReportPair>& pairs, const Names& names,
                         const std::vector<BoardAnswer>& boards, const std::vector<OfSeveral>& unpaired);

/// Samples/s of a device relative to a device of the base; nothing where one does not hold the model.
std::optional<double> over_base_by_device(const OfSeveral& row);

/// One row each; the model if they differ.
Table several_table(const std::vector<OfSeveral>& rows);
/// A "tandem-compare-several-1" document. `names`: what distinguishes the sides.
std::string several_json(const std::vector<OfSeveral>& rows, const std::vector<std::string>& names);

}  // namespace tandem::app
