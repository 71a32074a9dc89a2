// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "models/layers/layer.h"

namespace tandem::models {

namespace {

int64_t ranged(const Json& value, std::string_view key, int64_t low, int64_t high) {
  const int64_t v = value.as_int();
  if (v < low || v > high) value.fail(fmt::format("\"{}\" is {}, outside {} .. {}", key, v, low, high));
  return v;
}

}  // namespace

const Json* Attributes::ask(std::string_view key) const {
  if (std::find(asked_.begin(), asked_.end(), key) == asked_.end()) asked_.push_back(key);
  return json_->find(key);
}

const Json& Attributes::require(std::string_view key) const {
  if (const Json* j = ask(key)) return *j;
  fail(fmt::format("the attribute \"{}\" is missing{}", key, did_you_mean(key, json_->keys())));
}

int64_t Attributes::integer(std::string_view key, int64_t fallback, int64_t low, int64_t high) const {
  const Json* j = ask(key);
  return j != nullptr ? ranged(*j, key, low, high) : fallback;
}

int64_t Attributes::integer(std::string_view key) const { return ranged(require(key), key, 1, INT32_MAX); }

double Attributes::real(std::string_view key, double fallback, double low, double high) const {
  const Json* j = ask(key);
  return j != nullptr ? j->as_real(low, high) : fallback;
}

bool Attributes::boolean(std::string_view key, bool fallback) const {
  const Json* j = ask(key);
  if (j == nullptr) return fallback;
  return j->is_integer() ? ranged(*j, key, 0, 1) == 1 : j->as_bool();
}

std::string Attributes::text(std::string_view key, std::string_view fallback) const {
  const Json* j = ask(key);
  return j != nullptr ? j->as_text() : std::string(fallback);
}

bool Attributes::has(std::string_view key) const { return ask(key) != nullptr; }

bool Attributes::is_text(std::string_view key) const {
  const Json* j = ask(key);
  return j != nullptr && j->is_text();
}

std::vector<int64_t> Attributes::list(std::string_view key, std::size_t dims, int64_t fallback,
                                      int64_t low) const {
  const Json* j = ask(key);
  if (j == nullptr) return std::vector<int64_t>(dims, fallback);
  if (!j->is_array()) return std::vector<int64_t>(dims, ranged(*j, key, low, INT32_MAX));
  if (j->items().size() != dims) {
    j->fail(fmt::format("\"{}\" has {} numbers for {} dimensions", key, j->items().size(), dims));
  }
  return list(key, low);
}

std::vector<int64_t> Attributes::sizes(std::string_view key, std::size_t dims) const {
  require(key);
  return list(key, dims, 1, 1);
}

std::vector<int64_t> Attributes::list(std::string_view key, int64_t low) const {
  std::vector<int64_t> out;
  for (const Json& item : require(key).items()) out.push_back(ranged(item, key, low, INT32_MAX));
  return out;
}

void Attributes::finish() const {
  for (const auto& [key, value] : json_->members()) {
    if (std::find(asked_.begin(), asked_.end(), key) != asked_.end()) continue;
    const std::vector<std::string> valid(asked_.begin(), asked_.end());
    value.fail(fmt::format(
        "unknown attribute \"{}\".{} {}", printable(key), did_you_mean(key, valid),
        valid.empty() ? "This type has none" : fmt::format("Valid here: {}", fmt::join(valid, ", "))));
  }
}

}  // namespace tandem::models
