// SPDX-License-Identifier: Apache-2.0
#pragma once
// A sweep's file as text.
#include <string>

#include "app/console/table.h"
#include "sweep/store.h"

namespace tandem::app {

/// What is shown of a sweep.
struct SweepView {
  std::string sort = "samples_per_second";  ///< a column of the file
  bool ascending = false;
  int64_t top = 20;  ///< rows
};

/// Which cells a view shows, in its order, for Store::each(). Throws UsageError for a column that does not
/// exist.
std::string which_cells(const sweep::Store& store, const SweepView& view);

/// The answered cells that come first: the axes that vary, and what was answered. Throws as
/// which_cells().
Table sweep_table(sweep::Store& store, const SweepView& view);

/// "grid.sqlite: 94 of 96 cells: 80 answered, 10 do not fit, 4 refused".
std::string sweep_line(sweep::Store& store);

/// The line, what all cells have in common, the table, and why cells were refused; lines are at most
/// `columns` wide (0: no limit).
std::string sweep_text(sweep::Store& store, const SweepView& view, int columns);

}  // namespace tandem::app
