// SPDX-License-Identifier: Apache-2.0
#include "calibration/validate/series.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"

namespace tandem::calibration {

int64_t device_count(const std::string& key, const Json& value) {
  int64_t n = 0;
  const auto r = std::from_chars(key.data(), key.data() + key.size(), n);
  if (r.ec != std::errc{} || r.ptr != key.data() + key.size() || n < 1) {
    value.fail(fmt::format("\"{}\" is not a device count", printable(key)));
  }
  return n;
}

std::map<int64_t, double> values_of(const Json& series) {
  std::map<int64_t, double> out;
  for (const auto& [key, value] : series.at("values").members())
    out[device_count(key, value)] = value.as_real(1e-9);
  return out;
}

bool agree(const Json& a, const Json& b, std::span<const char* const> keys) {
  return std::all_of(keys.begin(), keys.end(), [&](const char* key) {
    const Json *x = a.find(key), *y = b.find(key);
    if (x == nullptr || y == nullptr) return x == y;
    if (x->kind() != y->kind()) return false;
    if (x->is_integer()) return x->as_int() == y->as_int();
    return x->is_text() && x->as_text() == y->as_text();
  });
}

}  // namespace tandem::calibration
