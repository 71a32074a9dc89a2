// SPDX-License-Identifier: Apache-2.0
#pragma once
// Names in system files: "gpu3", "gpu[0-7]", "gpu[0,3,5-6]". Internal to topologies.
#include <string>
#include <vector>

#include "base/error.h"

namespace tandem::topologies {

/// Most vertices that one node may have; what a name may expand to.
inline constexpr std::size_t kMaxVertices = 1024;

/// The names that `pattern` stands for, in order. Throws InputError at `place` when it is malformed, empty
/// or stands for more than kMaxVertices names. Nothing is allocated in proportion to a hostile range.
std::vector<std::string> expand_range(const std::string& pattern, const Place& place);

}  // namespace tandem::topologies
