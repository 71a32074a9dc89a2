// SPDX-License-Identifier: Apache-2.0
#pragma once
// A comparison as data: pair by pair, or of several machines, and as JSON.
#include <optional>
#include <string>
#include <vector>

#include "answers/board.h"
#include "answers/pair.h"

namespace tandem::answers {

/// Remarks on a changed board, one per pair.
struct BoardAnswer {
  Worth worth;
  std::optional<Placements> a, b;
};

/// What is compared, in words.
struct Names {
  std::string a, b;
};

/// Reports of sides A, B, C ..., each with the report that it is relative to, or none.
struct OfSeveral {
  char side = 'A';
  Report report;
  const Report* base = nullptr;
};

/// "only B holds it, A needs 33 of 16 GiB" if not both do, else why().
std::string reason_text(const ReportPair& pair);

/// Makes speed-up and efficiency of both relative to the same number of devices: the fewest on which either
/// holds the model, if both sides were asked and have them. Cost: a prediction of a rate.
void same_base(ReportPair& pair);

/// B's samples/s relative to A's; nothing if one does not hold the model, or A is missing.
std::optional<double> over_base(const OfSeveral& row);
/// Samples/s of a device relative to a device of the base; nothing where one does not hold the model.
std::optional<double> over_base_by_device(const OfSeveral& row);

/// A "tandem-compare-1" document. `pairs`: at least one; `boards`: empty, or one per pair; `unpaired`:
/// reports of A and B without a counterpart.
std::string compare_json(const std::vector<ReportPair>& pairs, const Names& names,
                         const std::vector<BoardAnswer>& boards, const std::vector<OfSeveral>& unpaired);
/// A "tandem-compare-several-1" document. `names`: what distinguishes the sides.
std::string several_json(const std::vector<OfSeveral>& rows, const std::vector<std::string>& names);

}  // namespace tandem::answers
