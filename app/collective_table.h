// SPDX-License-Identifier: Apache-2.0
#pragma once
// Predicted collectives over sizes: as table and picture.
#include <string>
#include <vector>

#include "app/console/table.h"
#include "calibration/collectives.h"
#include "pictures/gnuplot.h"

namespace tandem::app {

/// A line for each size.
Table collective_table(const CollectiveRun& run);
/// Plain numbers under the names of the JSON document; several runs have their kind and device count.
std::string collective_csv(const std::vector<CollectiveRun>& runs);
/// Where the figures come from and, with measured ones, their errors.
std::string collective_remarks(const CollectiveRun& run);
/// The picture: bus bandwidth over size, both logarithmic; predicted, bound and measured.
Gnuplot draw_collective(const CollectiveRun& run);

}  // namespace tandem::app
