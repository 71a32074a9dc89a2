// SPDX-License-Identifier: Apache-2.0
#include "base/precision.h"

#include <fmt/format.h>

namespace tandem::base {

namespace {
constexpr std::array<std::string_view, kPrecisions> kNames = {"fp32", "tf32", "fp16", "bf16", "fp8"};
}

std::string_view name(Precision p) { return kNames.at(static_cast<std::size_t>(p)); }

Precision parse_precision(std::string_view text, const Place& place) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == text) return static_cast<Precision>(i);
  }
  throw InputError(place,
                   fmt::format("no precision \"{}\"; valid: {}", printable(text), fmt::join(kNames, ", ")));
}

}  // namespace tandem::base
