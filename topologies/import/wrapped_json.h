// SPDX-License-Identifier: Apache-2.0
#pragma once
// JSON as people write it: what fits into a line stays on one.
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/rooms.h"

namespace tandem::topologies {

/// Without a line end. Text that is not UTF-8 is replaced where it is none.
std::string wrapped_json(const nlohmann::ordered_json& value);

}  // namespace tandem::topologies
