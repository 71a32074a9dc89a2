// SPDX-License-Identifier: Apache-2.0
#pragma once
// The pages of VALIDATION.md: every section on a page of docs/validation.
#include <string>
#include <vector>

#include "calibration/validate/collective_data.h"
#include "calibration/validate/validate.h"
#include "calibration/validate/validate_chances.h"
#include "calibration/validate/validate_input.h"
#include "calibration/validate/validate_memory.h"
#include "calibration/validate/validate_pairs.h"
#include "calibration/validate/validate_power.h"
#include "calibration/validate/validate_regret.h"
#include "calibration/validate/validate_runs.h"
#include "calibration/validate/validate_splits.h"
#include "calibration/validate/validate_staleness.h"

namespace tandem::calibration {

/// The comparisons of a run.
struct Comparisons {
  std::vector<ValidationRow> rows;
  std::vector<StalenessRow> staleness = {};
  std::vector<MemoryRow> memory = {};
  std::vector<PairRow> pairs = {};
  std::vector<InputRow> input = {};
  std::vector<SplitRow> splits = {};
  std::vector<CollectiveRow> collectives = {};
  std::vector<RegretGrid> regret = {};
  std::vector<RunRow> runs = {};
  PowerRows power = {};
  bool all = true;  ///< false: only `rows`, of some files
};

struct ValidationPage {
  std::string name;   ///< of the file, without ".md"
  std::string holds;  ///< in one line
  std::string text;   ///< sections; links are relative to the root
};

/// In the order of the list in VALIDATION.md. Pages of all comparisons also contain the executions, GPUs and
/// fitted constants of the data files.
std::vector<ValidationPage> validation_pages(const Comparisons& found);
/// The list of links to them, from the root.
std::string list_of_pages(const std::vector<ValidationPage>& pages);
/// A page as its file contains it: with a title, and links relative to docs/validation.
std::string page_markdown(const ValidationPage& page);

}  // namespace tandem::calibration
