// SPDX-License-Identifier: Apache-2.0
#pragma once
// The manual page and the completion of an installation, made from the table of verbs.
#include <string>

#include "base/rooms.h"

namespace tandem::app {

/// The manual page tandem(1), as roff.
std::string manual_page();

/// Completion for bash: verbs, their options, and names of components, which it asks `tandem list` for.
std::string bash_completion();

}  // namespace tandem::app
