// SPDX-License-Identifier: Apache-2.0
#pragma once
// Two predictions that differ in something: what changes, and why, in one line.
#include <string>

#include "answers/pair.h"
#include "answers/swap.h"

namespace tandem::answers {

struct Reason {
  std::string text;
  Swap swap;
};

/// "vgg16 on 8 devices: 1.9x faster on dgx1-v100 (1,656 -> 3,105 samples/s; ratio 1.88, 90 % interval 1.70 ..
/// 2.07), because a step waits for communication for 5 instead of 59 ms; on v100-pcie-8x the ring crosses the
/// socket link ...; with only the devices changed (...) 1.01x, with only links and host changed 1.86x". The
/// reason is the part of a step that changes most; communication and the kernel time that it takes count
/// together. For these two, if the slower side's question is available, the links named are the kinds whose
/// unlimited bandwidth would make that side as fast as with no link limits at all. Every change is predicted.
/// Empty if one report was predicted and the other executed, or if one has no throughput.
Reason why(const ReportPair& pair);

}  // namespace tandem::answers
