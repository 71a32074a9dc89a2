// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where the time of a traced training step went on a device.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "calibration/traces/kineto.h"

namespace tandem::calibration {

/// Seconds are those of one step on average, unless said otherwise.
struct TraceSummary {
  /// Of all steps that count: from the first kernel of one to the first kernel of the next, which is a step's
  /// length also where the host runs ahead of the device. With a single step: from the first of its mark and
  /// its kernels to the last.
  int64_t steps = 0;
  double step_median = 0, step_low = 0, step_high = 0;
  double step_mean = 0;

  double busy = 0;                   ///< anything runs
  double compute = 0;                ///< kernels that are neither communication nor copies run
  double communication = 0;          ///< collectives run, waiting for other ranks counted
  double exposed_communication = 0;  ///< while nothing else runs
  double exposed_copies = 0;         ///< only copies run, and nothing else
  double idle = 0;                   ///< nothing runs
  /// Of it, until the host had launched what ran next; unknown launches count as none.
  double idle_for_host = 0;
  double launches = 0;  ///< kernels, copies and fills

  struct Kind {
    TracedKind kind = TracedKind::other;
    double count = 0, seconds = 0;  ///< overlapping ones count twice
  };
  std::vector<Kind> kinds;  ///< by seconds, the most first; those that occur

  struct Kernel {
    std::string name;
    TracedKind kind = TracedKind::other;
    double count = 0, seconds = 0;
  };
  std::vector<Kernel> kernels;  ///< by seconds, the most first; the first 20

  struct Collective {
    std::string kind;
    int64_t bytes = 0;  ///< 0: not in the trace
    int64_t group = 0;
    double count = 0, seconds = 0;
    double least = 0;  ///< seconds of the shortest: a rank that waited for no other
  };
  std::vector<Collective> collectives;  ///< by seconds, the most first

  double outside = 0;  ///< kernels outside of the steps, in all
  std::vector<std::string> notes;
};

/// Throws InputError if all that ran took no time. O(kernels log kernels).
TraceSummary summary_of(const Trace& trace);

}  // namespace tandem::calibration
