// SPDX-License-Identifier: Apache-2.0
#pragma once
// Writers of a System in the words of other simulators, for cross-checks. Each is one file in
// topologies/export and one word in topologies/CMakeLists.txt.
#include <string>
#include <string_view>
#include <vector>

#include "base/registry.h"
#include "topologies/system.h"

namespace tandem::topologies {

struct SystemExporter {
  std::string_view name, summary;
  /// The file's text. Appends to `notes` what the format cannot say of this system. Throws InputError where
  /// it can say nothing of it, or only in a file of absurd size.
  std::string (*write)(const System& system, std::vector<std::string>& notes);
};

/// Generated from the list in topologies/CMakeLists.txt.
const Registry<SystemExporter>& export_registry();

}  // namespace tandem::topologies
