// SPDX-License-Identifier: Apache-2.0
#pragma once
// Groups of a mesh: the instances that differ only on some of its axes.
#include <cstdint>
#include <vector>

#include "schemes/program/program.h"

namespace tandem::sim {

/// Group numbers and members for one choice of axes. Groups are numbered by their first member; members of a
/// group are first(g) + each of offsets(), increasing. Memory O(instances).
/// Immutable once made: any thread may read it.
class Groups {
 public:
  Groups(const Mesh& mesh, uint32_t axes);
  uint32_t count() const { return static_cast<uint32_t>(first_.size()); }
  uint32_t size() const { return static_cast<uint32_t>(offsets_.size()); }
  uint32_t of(uint32_t instance) const { return of_[instance]; }
  uint32_t first(uint32_t group) const { return first_[group]; }
  const std::vector<uint32_t>& offsets() const { return offsets_; }

 private:
  std::vector<uint32_t> of_, first_, offsets_{0};
};

}  // namespace tandem::sim
