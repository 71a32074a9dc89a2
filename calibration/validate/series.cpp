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

bool agree_beside(const Json& a, const Json& b, std::span<const std::string_view> these) {
  std::vector<const char*> keys;
  for (const Json* json : {&a, &b}) {
    for (const auto& [key, value] : json->members()) {
      if (std::find(these.begin(), these.end(), key) == these.end()) keys.push_back(key.c_str());
    }
  }
  return agree(a, b, keys);
}

std::vector<AskedOnce> asked_once(const std::vector<Asked>& all, std::span<const std::string_view> told) {
  std::vector<AskedOnce> out;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto same = std::find_if(out.begin(), out.end(), [&](const AskedOnce& group) {
      const Asked& first = all[group.members.front()];
      return first.document == all[i].document && agree_beside(*first.json, *all[i].json, told);
    });
    AskedOnce& group = same != out.end() ? *same : out.emplace_back();
    group.members.push_back(i);
    group.devices += all[i].devices;
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const AskedOnce& a, const AskedOnce& b) { return a.devices > b.devices; });
  return out;
}

}  // namespace tandem::calibration
