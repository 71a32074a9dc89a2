// SPDX-License-Identifier: Apache-2.0
#pragma once
// Two machines that differ in devices and in the rest: the effect of each alone.
#include <optional>

#include "answers/pair.h"

namespace tandem::answers {

/// Rates relative to A's, each by a prediction. Absent if the machines do not differ in it, if a machine
/// mixes device models, or if it is too large to predict quickly.
struct Swap {
  std::optional<double> devices;  ///< A's machine with B's devices
  std::optional<double> rest;     ///< A's devices in B's machine: links, host and all
};

/// Cost: two predictions of a rate. Needs both questions, else nothing is tried.
Swap swap_parts(const ReportPair& pair);

}  // namespace tandem::answers
