// SPDX-License-Identifier: Apache-2.0
#pragma once
// A prediction and a trace of the real thing: where the two disagree, and why that may be.
#include <string>
#include <string_view>
#include <vector>

#include "calibration/traces/trace_summary.h"
#include "schemes/report/report.h"

namespace tandem::calibration {

/// Seconds of a step in which a device does one kind of thing.
struct TracedPair {
  std::string what;
  double predicted = 0, traced = 0;
  double difference() const { return traced - predicted; }
};

/// In a fixed order; those that are zero on both sides left out. Names of kernels do not tell a convolution's
/// products from others: these are one kind.
std::vector<TracedPair> compare_trace(const Report& report, const TraceSummary& trace);

struct TraceComparison {
  std::string report_file, trace_file;
  Report report;       ///< with as many devices as the trace has ranks, else the last of the document
  std::string device;  ///< what the trace ran on; "" if not recorded
  int64_t rank = 0, world_size = 1;
  TraceSummary summary;
  std::vector<TracedPair> pairs;
  /// The largest disagreement and what explains it: "The trace waits 166 ms for the host ...".
  std::string reason;
  std::vector<std::string> notes;

  /// A "tandem-trace-comparison-1" document.
  std::string json() const;
};

/// `report`: a file or a document. Throws InputError, also where the report's model does not fit.
TraceComparison compare_trace(const std::string& report, const std::string& trace);

/// Whether a file is a trace of a profiler; reads what it begins with. False for what cannot be read.
bool is_trace(const std::string& file);

}  // namespace tandem::calibration
