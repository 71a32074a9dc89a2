// SPDX-License-Identifier: Apache-2.0
#pragma once
// One thing that can be asked, as data: from the tables of these come the flags of the command line and their
// help, the keys of a question in JSON and their schema.
#include <cstdint>
#include <string_view>

#include "base/rooms.h"

namespace tandem::answers {

/// `value` names what follows ("FILE"); empty for a switch. `formerly`: a name of earlier versions that is
/// still taken, so that scripts go on; help does not show it. `fallback`: what holds where the option is not
/// given, where that is one text.
struct Option {
  /// What a value is in JSON; on a command line all are words.
  enum class Kind : uint8_t {
    text,     ///< a name, a file, a quantity with its unit, a selection "name:key=value"
    number,   ///< "N", "SIGMA", "LOSS"
    numbers,  ///< a list; with commas on the command line
    given,    ///< a switch: true
  };

  std::string_view name, value, help;
  bool repeatable = false;  ///< in JSON a list
  std::string_view formerly = {};
  std::string_view fallback = {};
  /// By what `value` is called.
  Kind kind() const {
    if (value.empty()) return Kind::given;
    if (value == "N[,N...]") return Kind::numbers;
    return value == "N" || value == "SIGMA" || value == "LOSS" ? Kind::number : Kind::text;
  }
};

}  // namespace tandem::answers
