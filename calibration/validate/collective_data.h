// SPDX-License-Identifier: Apache-2.0
#pragma once
// Published timings of collectives (calibration/data/collectives/*.csv) and their predictions.
#include <string>
#include <vector>

#include "schemes/program/program.h"
#include "sim/cost/link_profile.h"

namespace tandem::calibration {

/// One published timing.
struct CollectiveRow {
  std::string table;   ///< file name without folder and ".csv"
  std::string line;    ///< as the table has it
  std::string system;  ///< a name in topologies/systems, or a file in "systems" next to the table
  std::string sets;    ///< "path=value;...": differences from that system, without the harness
  Harness harness;     ///< of the benchmark: "harness=1x8x20" among the sets, else its default
  CollKind kind = CollKind::all_reduce;
  int64_t devices = 0, bytes = 0;
  double measured = 0;   ///< seconds
  double predicted = 0;  ///< seconds as the benchmark would report them; 0 before predict_collectives()
  std::string algorithm, protocol;
  double spread = 0;         ///< of the interval (LinkCost::Choice)
  double log_ratio() const;  ///< ln(predicted / measured)
};

/// Rows of one table: "system,sets,kind,devices,bytes,us" with comments (#) and that header. Throws
/// InputError with file and line.
std::vector<CollectiveRow> read_collectives(const std::string& path);
/// Adds the predictions from stock figures only; `folder`: where the tables and "systems" are. Throws
/// InputError.
void predict_collectives(std::vector<CollectiveRow>& rows, const std::string& folder);
/// All tables of calibration/data/collectives, predicted.
std::vector<CollectiveRow> validate_collectives();

/// exp(mean |ln ratio|) - 1; 0 if empty.
double geometric_error(const std::vector<double>& log_ratios);
/// Every row, with one header line.
std::string collectives_csv(const std::vector<CollectiveRow>& rows);
/// The section "Collectives": by kind of machine.
std::string collectives_markdown(const std::vector<CollectiveRow>& rows);

}  // namespace tandem::calibration
