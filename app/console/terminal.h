// SPDX-License-Identifier: Apache-2.0
#pragma once
// The width of the terminal, and text wrapped to it.
#include <string>
#include <string_view>

#include "base/rooms.h"

namespace tandem::app {

/// Number of character cells of UTF-8 text (one per code point).
std::size_t width(std::string_view utf8);

/// Line width of the descriptor: $COLUMNS if that is a number of at least 20, else the terminal's, else 0:
/// not a terminal, no limit.
int columns_of(int descriptor);

/// Lines of more than `columns` characters are wrapped at blanks and continue under their first word, or
/// under the text that two or more blanks part from a short label. Longer words are broken after a
/// comma, or stay whole. 0: unchanged.
std::string wrapped(std::string_view text, int columns);

/// `text` after `label`, wrapped to `columns` in all, continuing under itself.
std::string hanging(std::string_view label, std::string_view text, int columns);

/// At most `columns` characters of one line, the last of them "…" if it is cut. 0: all of it.
std::string cut_off(std::string_view line, int columns);

}  // namespace tandem::app
