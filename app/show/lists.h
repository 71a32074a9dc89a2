// SPDX-License-Identifier: Apache-2.0
#pragma once
// What there is, by kind: models, systems, schemes and so on.
#include <string>
#include <string_view>
#include <vector>

#include "app/console/table.h"

namespace tandem::app {

struct ListKind {
  std::string_view name;  ///< "models"
  /// A name in the first column, what it is in the last. Throws DeviceError where the data is missing.
  Table (*table)();
  std::string_view more = {};  ///< below the table, for people
};

/// In the order that people read them.
const std::vector<ListKind>& list_kinds();

/// Names of a kind, "models" or "model"; empty if there is none.
std::vector<std::string> listed_names(std::string_view kind);

}  // namespace tandem::app
