// SPDX-License-Identifier: Apache-2.0
#pragma once
// Versions of communication libraries, in text and as one number.
#include <string_view>
#include <vector>

#include "base/error.h"

namespace tandem::sim {

/// "2.18.3" -> {2, 18, 3}. Throws InputError at `place`.
std::vector<int> version_of(std::string_view text, const Place& place);
/// {2, 18, 3} -> 218: major * 100 + minor, each at most 99.
int short_version(std::vector<int> version);
/// The same of text. Throws InputError at `place`.
int library_version(std::string_view text, const Place& place);

}  // namespace tandem::sim
