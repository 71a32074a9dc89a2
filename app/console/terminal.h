// SPDX-License-Identifier: Apache-2.0
#pragma once
// How wide the terminal is, and text that breaks between words there.
#include <string>
#include <string_view>

#include "base/rooms.h"

namespace tandem::app {

/// Number of character cells of UTF-8 text (one per code point).
std::size_t width(std::string_view utf8);

/// Characters in a line of what the descriptor writes to: $COLUMNS if that is a number from 20 up, else what
/// the terminal says, else 0: no terminal, so no limit.
int columns_of(int descriptor);

/// Lines of more than `columns` characters broken at blanks and continued under their first word, or under
/// the text that two blanks or more part from a short label before it. A longer word stays whole. 0: the text
/// as it is.
std::string wrapped(std::string_view text, int columns);

/// `text` after `label`, broken to `columns` in all and continued under itself.
std::string hanging(std::string_view label, std::string_view text, int columns);

/// At most `columns` characters of one line, the last of them "…" where something is cut off. 0: all of it.
std::string cut_off(std::string_view line, int columns);

}  // namespace tandem::app
