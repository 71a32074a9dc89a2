// SPDX-License-Identifier: Apache-2.0
#pragma once
// The manual page and the completion of an installation.
#include <string>
#include <string_view>
#include <vector>

#include "base/rooms.h"

namespace tandem::app {

/// The manual page tandem(1), as roff.
std::string manual_page();

/// Shells that completion_script() is for: bash, zsh, fish.
const std::vector<std::string>& completed_shells();

/// What a shell reads, so that Tab asks `tandem completion SHELL -- WORDS` for the words that may stand last.
std::string completion_script(std::string_view shell);

}  // namespace tandem::app
