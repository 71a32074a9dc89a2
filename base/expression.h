// SPDX-License-Identifier: Apache-2.0
#pragma once
// The whole-number expressions of model files: "=width*4+1".
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace tandem::base {

/// Named whole numbers; names not found here are looked for in `outer`.
/// For one thread at a time.
class Variables {
 public:
  explicit Variables(const Variables* outer = nullptr) : outer_(outer) {}
  /// Adds or replaces in this level.
  void set(std::string_view name, int64_t value);
  const int64_t* find(std::string_view name) const;
  /// The level that has no outer one.
  const Variables* outermost() const { return outer_ != nullptr ? outer_->outermost() : this; }
  /// All visible names, innermost level first, sorted within a level.
  std::vector<std::string> names() const;

 private:
  const Variables* outer_;
  std::map<std::string, int64_t, std::less<>> values_;
};

/// Value of `text` ("=" and all): + - * / % ( ), unary minus, whole numbers and names; a < b and a == b are 1
/// or 0. Throws InputError at `place`: syntax, unknown name (nearest named), division that is not exact,
/// 64-bit overflow, more than 256 characters, nesting deeper than 32.
int64_t evaluate(std::string_view text, const Variables& variables, const Place& place);

/// True for text that begins with "=".
bool is_expression(const Json& value);
/// A whole number: written as such or as an expression.
int64_t whole_number(const Json& value, const Variables& variables);

}  // namespace tandem::base
