// SPDX-License-Identifier: Apache-2.0
#pragma once
// Named components of one kind. Filled by generated code from the lists in CMake (cmake/components.cmake).
//
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace tandem::base {

/// Requires of T: members `name` and `summary` convertible to std::string_view.
/// Filled once, then immutable: any thread may read it.
template <typename T>
class Registry {
 public:
  /// `kind` is the plural shown to users, e.g. "layers"; the singular drops its last letter.
  explicit Registry(std::string kind) : kind_(std::move(kind)) {}

  /// Throws std::logic_error when the name is taken.
  void add(T component) {
    if (find(component.name) != nullptr) {
      throw std::logic_error(fmt::format("{}: \"{}\" is registered twice", kind_, component.name));
    }
    all_.push_back(std::move(component));
  }

  const T* find(std::string_view name) const {
    for (const T& c : all_) {
      if (name == c.name) return &c;
    }
    return nullptr;
  }

  /// Throws InputError with the nearest names when there is none.
  const T& at(std::string_view name, const Place& place = {}) const {
    if (const T* found = find(name)) return *found;
    throw InputError(place,
                     fmt::format("no {} \"{}\".{} All: tandem list {}", kind_.substr(0, kind_.size() - 1),
                                 printable(name), did_you_mean(name, names()), kind_));
  }

  const std::vector<T>& all() const { return all_; }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const T& c : all_) out.emplace_back(c.name);
    return out;
  }

 private:
  std::string kind_;
  std::vector<T> all_;
};

}  // namespace tandem::base
