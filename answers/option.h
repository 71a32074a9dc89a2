// SPDX-License-Identifier: Apache-2.0
#pragma once
// One option as data. From tables of these come the flags of the command line and their help, the keys of a
// question in JSON and their schema.
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/rooms.h"

namespace tandem::answers {

/// `value` names the argument ("FILE"); empty for a switch. `formerly`: an earlier name that is still
/// accepted but not shown in help. `fallback`: the default, if it is one text.
struct Option {
  /// Type of a value in JSON; on a command line all are words.
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
  /// By the name of the argument.
  Kind kind() const {
    if (value.empty()) return Kind::given;
    if (value == "N[,N...]") return Kind::numbers;
    return value == "N" || value == "SIGMA" || value == "LOSS" ? Kind::number : Kind::text;
  }
  /// The kind of `tandem list` whose names are its values; "" for other values.
  std::string_view names() const;
  /// The words that its value may be, as far as `value` says them: of "off|WHAT" off.
  std::vector<std::string_view> choices() const;
  /// True if one value holds several, parted by commas.
  bool listed() const { return value.find("[,") != std::string_view::npos || repeatable; }
};

}  // namespace tandem::answers
