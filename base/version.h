// SPDX-License-Identifier: Apache-2.0
#pragma once
// What this build is.
#include <string>

#include "base/rooms.h"

namespace tandem::base {

/// "0.1.0".
std::string version();
/// Of the source tree, "1a2b3c"; empty where it is not known.
std::string commit();
/// Version and commit: "0.1.0 commit 1a2b3c". What two such builds predict may differ.
std::string build_name();

}  // namespace tandem::base
