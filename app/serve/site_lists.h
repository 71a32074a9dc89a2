// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the page offers to choose from.
#include <string>

#include "base/rooms.h"

namespace tandem::app {

/// A "tandem-options-1" document: "options" of a question with their help, and by name with a summary
/// "models", "systems", "schemes" (with their keys), "precisions", "optimizers", "devices". Made once. Any
/// thread.
const std::string& options_text();

}  // namespace tandem::app
