// SPDX-License-Identifier: Apache-2.0
#pragma once
// What this build is made of.
#include <string>

#include "base/version.h"

namespace tandem::app {

/// The page of --version: version, compiler and libraries of the build; or the same as a JSON document.
std::string version_page(bool json);

}  // namespace tandem::app
