// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whether transfers of a plan can slow each other.
#include <string>

#include "sim/plan/plan.h"

namespace tandem::sim {

/// "" when no two transfers of different groups or lanes that share a resource can ever exceed it together,
/// else which may, in words ("copy lane and comm lane share ..."). An upper bound: every lane makes its
/// largest transfer at any time. O(instances x ops).
std::string contention(const Plan& plan);

}  // namespace tandem::sim
