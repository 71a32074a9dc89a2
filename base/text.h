// SPDX-License-Identifier: Apache-2.0
#pragma once
// Small helpers on text that several floors read.
#include <string>
#include <string_view>
#include <vector>

#include "base/rooms.h"

namespace tandem::base {

/// The parts between the separators: one more than there are separators, empty ones included.
inline std::vector<std::string> split(std::string_view text, char by) {
  std::vector<std::string> out;
  while (true) {
    const auto at = text.find(by);
    out.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos) return out;
    text.remove_prefix(at + 1);
  }
}

}  // namespace tandem::base
