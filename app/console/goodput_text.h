// SPDX-License-Identifier: Apache-2.0
#pragma once
// A report's goodput as text.
#include <string>

#include "schemes/report/report.h"

namespace tandem::app {

/// "with 1 spare", "waiting for it", "continuing with fewer nodes".
std::string way_about_failures(int64_t spares, bool elastic);

/// "1,234 (96.5 %)": samples/s under failures.
std::string goodput_cell(const Report& report);

/// Paragraphs: failures and checkpoints, where the time goes, and alternatives for nodes that are down. ""
/// without failures.
std::string goodput_lines(const Report& report);

}  // namespace tandem::app
