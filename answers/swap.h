// SPDX-License-Identifier: Apache-2.0
#pragma once
// Two machines that differ in their devices and in all else: what each of the two alone would give.
#include <optional>

#include "answers/pair.h"

namespace tandem::answers {

/// Rates over A's, each by a prediction. Absent where the machines do not differ in it, where a machine has
/// devices of several models, or where it is too large to be predicted at once.
struct Swap {
  std::optional<double> devices;  ///< A's machine with B's devices
  std::optional<double> rest;     ///< A's devices in B's machine: links, host and all
};

/// Cost: two predictions of a rate. Both questions must be at hand, else nothing is tried.
Swap swap_parts(const ReportPair& pair);

}  // namespace tandem::answers
