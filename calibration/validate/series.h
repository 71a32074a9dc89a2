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

/// Whether two series agree under each of the keys (or both lack it).
bool agree(const Json& a, const Json& b, std::span<const char* const> keys);
/// The same for all keys that either has, except these.
bool agree_beside(const Json& a, const Json& b, std::span<const std::string_view> these);

/// The prediction that one entry of a document asks for.
struct Asked {
  const Json* json;
  const Json* document;
  int64_t devices;  ///< summed over all its predictions
};
/// Entries with the same question.
struct AskedOnce {
  std::vector<std::size_t> members;
  int64_t devices = 0;  ///< summed over all of them
};
/// Groups the entries of a document that differ only in `told`, the keys about the published runs. Groups
/// with the most devices come first, since they take longest.
std::vector<AskedOnce> asked_once(const std::vector<Asked>& all, std::span<const std::string_view> told);

}  // namespace tandem::calibration
