// SPDX-License-Identifier: Apache-2.0
#pragma once
// Series of the published tables (calibration/data/published), as several comparisons read them.
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace tandem::calibration {

/// The key of a value by device counts. Throws InputError at `value`.
int64_t device_count(const std::string& key, const Json& value);

/// "values" of a series: by device counts, > 0. Throws InputError.
std::map<int64_t, double> values_of(const Json& series);

/// Do two series say the same under each of the keys, or both nothing?
bool agree(const Json& a, const Json& b, std::span<const char* const> keys);
/// The same of all keys that either has, but for these.
bool agree_beside(const Json& a, const Json& b, std::span<const std::string_view> these);

/// What one entry of a document asks to be predicted.
struct Asked {
  const Json* json;
  const Json* document;
  int64_t devices;  ///< of all its predictions together
};
/// Entries that ask the same.
struct AskedOnce {
  std::vector<std::size_t> members;
  int64_t devices = 0;  ///< of all of them
};
/// Entries of one document that agree beside `told`, what is said of the published runs alone, go together.
/// Groups of the most devices come first, since they take the longest.
std::vector<AskedOnce> asked_once(const std::vector<Asked>& all, std::span<const std::string_view> told);

}  // namespace tandem::calibration
