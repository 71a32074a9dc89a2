// SPDX-License-Identifier: Apache-2.0
#pragma once
// What this build is.
#include <string>

#include "base/rooms.h"

namespace tandem::app {

/// "0.1.0".
std::string version();
/// With the commit, where that is known: "0.1.0 commit 1a2b3c". What two such builds predict may differ.
std::string build_name();
/// The page of --version: version, compiler and libraries of the build; or the same as a JSON document.
std::string version_page(bool json);

}  // namespace tandem::app
