// SPDX-License-Identifier: Apache-2.0
#pragma once
// A prediction and a trace of the real thing: where the two disagree, and why that may be.
#include <string>
#include <vector>

#include "app/console/cli.h"
#include "calibration/traces/trace_summary.h"
#include "schemes/report/report.h"

namespace tandem::app {

/// Seconds of a step in which a device does one kind of thing.
struct TracedPair {
  std::string what;
  double predicted = 0, traced = 0;
  double difference() const { return traced - predicted; }
};

/// In a fixed order; those that are zero on both sides left out. Names of kernels do not tell a convolution's
/// products from others: these are one kind.
std::vector<TracedPair> compare_trace(const Report& report, const calibration::TraceSummary& trace);

/// The largest disagreement and what explains it: "The trace waits 166 ms for the host ...".
std::string trace_reason(const std::vector<TracedPair>& pairs, const Report& report,
                         const calibration::TraceSummary& trace);

/// Whether a file is a trace of a profiler; reads what it begins with. False for what cannot be read.
bool is_trace(const std::string& file);
/// `tandem compare REPORT TRACE`, in either order. The report with as many devices as the trace has ranks
/// counts, else its last. Throws InputError.
int put_trace_comparison(const Arguments& arguments, const std::string& report, const std::string& trace);

}  // namespace tandem::app
