// SPDX-License-Identifier: Apache-2.0
#pragma once
// Series of the published tables (calibration/data/published), as several comparisons read them.
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "base/json.h"

namespace tandem::calibration {

/// The key of a value by device counts. Throws InputError at `value`.
int64_t device_count(const std::string& key, const Json& value);

/// "values" of a series: by device counts, > 0. Throws InputError.
std::map<int64_t, double> values_of(const Json& series);

/// Do two series say the same under each of the keys, or both nothing?
bool agree(const Json& a, const Json& b, std::span<const char* const> keys);

}  // namespace tandem::calibration
