#pragma once
// Two predictions that differ in something: what changes, and why, in one line. Floor 5.
#include <string>

#include "app/report_text.h"

namespace tandem {

/// "vgg16 on 8 devices: 1.9x faster on dgx1-v100 (1,656 -> 3,105 samples/s), because a step waits for
/// communication for 5 instead of 59 ms; on v100-pcie-8x the ring crosses the socket link ...". The part of a
/// step (compute, communication, input, other devices) that changes most is the reason. Where it is
/// communication and the slower side's question is at hand, the kinds of links named are those without whose
/// limits that side would be as fast as without any such limit, found by predictions. Empty when one report
/// was predicted and the other executed, or when one has no throughput.
std::string why(const ReportPair& pair);

}  // namespace tandem
