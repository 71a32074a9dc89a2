// SPDX-License-Identifier: Apache-2.0
#pragma once
// The PyTorch profiler's Chrome traces (Kineto): what ran on the devices of one process, and what launched
// it.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "calibration/traces/traced_kind.h"

namespace tandem::calibration {

/// A collective as the host asked for it.
struct TracedCollective {
  std::string kind;      ///< "all-reduce", "all-to-all", ...; "" where the trace does not say
  int64_t bytes = 0;     ///< of one rank, the larger of what goes in and comes out; 0: not in the trace
  int64_t elements = 0;  ///< 0: not in the trace
  std::string dtype;     ///< as the trace spells it
  int64_t group = 0;     ///< ranks; 0: not in the trace
};

/// A kernel, copy or fill on a device. Seconds count from the trace's first event.
struct TracedKernel {
  double start = 0, end = 0;
  /// When the host began and ended its launch; NaN where the trace lacks it.
  double launch_start = std::numeric_limits<double>::quiet_NaN(), launch_end = launch_start;
  uint32_t name = 0;  ///< of Trace::names
  int32_t device = 0;
  int32_t collective = -1;  ///< of Trace::collectives, or none
  TracedKind kind = TracedKind::other;
};

/// A training step as the host marked it.
struct TracedStep {
  double start = 0, end = 0;
};

struct Trace {
  std::string file;
  std::string device;  ///< name of the first that ran something; "" if not recorded
  int64_t rank = 0, world_size = 1;
  std::string backend, nccl;          ///< "nccl", "2.17.1"; "" if not recorded
  std::string marks;                  ///< what steps were found by: "ProfilerStep", "Optimizer.step", ""
  std::vector<TracedStep> steps;      ///< in time, none overlaps another; empty: no marks
  std::vector<TracedKernel> kernels;  ///< by start
  std::vector<std::string> names;     ///< of kernels
  std::vector<TracedCollective> collectives;
  int64_t events = 0, host_events = 0;  ///< in the file; those of the host
  std::vector<std::string> notes;
};

/// Puts up to `size` further bytes of a file at `to` and returns how many; 0 at its end.
using ByteSource = std::function<std::size_t(char* to, std::size_t size)>;

/// A file, or what gzip made of it. Throws InputError if it cannot be opened, and when read if it is damaged.
ByteSource open_bytes(const std::string& path);
ByteSource bytes_of(std::string_view text);
/// The first 64 KiB of a regular file, unpacked; "" for anything else. Throws as open_bytes() does.
std::string beginning_of(const std::string& path);

/// Whether a text begins as such a trace does, or as an execution trace, which read_kineto() refuses with the
/// reason; reads only a prefix. Never throws.
bool looks_like_kineto(std::string_view prefix);

/// Reads a trace of any size in one pass; keeps what ran on devices and what launched it, some 100 bytes for
/// each. `file` is for messages. Throws InputError: no JSON (with the offset), no "traceEvents", an execution
/// trace (which has no times), or nothing ran on a device.
Trace read_kineto(const ByteSource& source, const std::string& file);

}  // namespace tandem::calibration
