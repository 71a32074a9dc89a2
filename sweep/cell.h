// SPDX-License-Identifier: Apache-2.0
#pragma once
// One cell of a grid: its question, what was answered, and the figures to sort by.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "answers/answer.h"
#include "sweep/database.h"
#include "sweep/grid.h"

namespace tandem::sweep {

/// A column of the table "cells" (docs/formats/sweep.md).
struct Column {
  std::string name;
  std::string_view type;  ///< SQL's: TEXT, NUMERIC (a number where it looks like one), INTEGER, REAL
};
/// Of a grid's cells, in order: kHash, kPosition, kStatus, kReason, the axes, figures(), "question",
/// "report".
std::vector<Column> columns(const Grid& grid);
inline constexpr int kHash = 0, kPosition = 1, kStatus = 2, kReason = 3, kFirstAxis = 4;

/// How a cell was answered.
inline constexpr std::string_view kAnswered = "answered";
inline constexpr std::string_view kMisfit = "does not fit";  ///< the model, the devices; only memory is known
inline constexpr std::string_view kRefused = "refused";      ///< the reason says why

/// What a report is sorted by.
struct Figure {
  std::string_view name, type;
  Value (*of)(const Report& report, Depth depth);
  bool of_memory = false;  ///< known where a model does not fit
};
/// Names carry units: "samples_per_second", "memory_bytes" ...
const std::vector<Figure>& figures();

/// By name: "rate" is Depth::fit. Throws InputError.
Depth parse_depth(const std::string& text, const Place& place);

/// What a row of the file holds, one value for each of columns().
using Row = std::vector<Value>;

/// Question::hash() as 16 digits.
std::string key_text(uint64_t hash);

/// A cell whose question is known.
struct AskedCell {
  int64_t position = 0;
  std::string hash;      ///< of the question; where it cannot be read, of its options
  std::string question;  ///< a "tandem-question-1" document
  std::string refusal;   ///< why it cannot be read; else empty
};

/// The row of a question that cannot be read.
Row refused_row(const Grid& grid, const AskedCell& cell, const std::string& reason);
/// The row of a question. Never throws what a question's answer may throw: that is the reason of a refused
/// cell.
Row answer_row(const Grid& grid, const AskedCell& cell, const Question& question, Depth depth);

}  // namespace tandem::sweep
