// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whether transfers of a plan can slow each other.
#include <string>
#include <vector>

#include "sim/bound/bound_program.h"

namespace tandem::sim {

/// Links that the copies of one lane of one role can fill, so that they slow each other. Beside them at most
/// one other lane uses each, and that alone has room.
struct ContendingCopies {
  struct Link {
    uint32_t link = 0;
    double others = 0;  ///< of its capacity the other lane takes so much at most, in bytes/s
  };
  uint32_t role = 0;
  Lane lane = Lane::copy;
  std::vector<Link> links;
};

struct Contention {
  /// "" when no two transfers of different groups or lanes that share a resource can ever exceed it together,
  /// else which may, in words ("copy lane and comm lane share ..."). An upper bound: every lane makes its
  /// largest transfer at any time.
  std::string who;
  /// Where copies are what is too much for every such resource: those of each such lane. Else empty.
  std::vector<ContendingCopies> copies;
};
/// O(instances x ops).
Contention find_contention(const BoundProgram& plan);
/// Whether a link has so much, in bytes/s: exactly full is no contention.
inline bool fit_together(const BoundProgram& plan, uint32_t link, double load) {
  return load <= plan.capacity[link] * (1 + 1e-9);
}

}  // namespace tandem::sim
