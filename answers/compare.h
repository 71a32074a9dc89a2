// SPDX-License-Identifier: Apache-2.0
#pragma once
// Compares systems for a model, or reports.
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "answers/asking.h"
#include "answers/comparison.h"
#include "answers/sides.h"

namespace tandem::answers {

/// Options of a comparison of systems, without those of how it is shown.
std::vector<Option> compare_options();

/// Answers of all sides for one model.
struct Answered {
  std::vector<Question*> asked;              ///< by side; empty where reports are compared
  std::vector<std::vector<Report>> reports;  ///< by side and device count
};

/// A comparison with what it points into. It can be moved, not copied.
struct Comparison {
  Comparison() = default;
  Comparison(Comparison&&) = default;
  Comparison& operator=(Comparison&&) = default;

  std::vector<Side> sides;  ///< empty where reports are compared
  bool changed = false;     ///< B is A's system with changes
  std::deque<Question> questions;
  std::vector<Answered> answered;  ///< one per model
  std::string refusal;             ///< where no side holds any model: what would help
  /// Of two sides.
  std::vector<ReportPair> pairs;
  Names names;
  std::vector<OfSeveral> unpaired;
  std::vector<BoardAnswer> boards;
  /// Of more.
  std::vector<OfSeveral> rows;
  std::vector<std::string> labels;

  bool several() const { return !rows.empty(); }
  /// A "tandem-compare-1" or, of more than two sides, a "tandem-compare-several-1" document.
  std::string json() const;
};

/// `words`: systems (names, files or documents) where the values name a model, else reports (files or
/// documents). With --question the values and the system come from a document too. `show` is told what is
/// being predicted; it may be empty. Throws InputError and UsageError.
Comparison compare(const Values& given, std::vector<std::string> words, const Hooks& hooks,
                   const std::function<void(std::string_view)>& show = {});

/// The reports of a file, or of the text of a document. Throws InputError.
std::vector<Report> reports_of(const std::string& word);

}  // namespace tandem::answers
