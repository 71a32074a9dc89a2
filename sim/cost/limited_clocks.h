// SPDX-License-Identifier: Apache-2.0
#pragma once
// What power limits leave of the clock of a job's devices.
#include <cstdint>
#include <functional>
#include <map>

#include "schemes/program/program.h"
#include "topologies/system.h"

namespace tandem::sim {

/// Of one program on one system, which must outlive it. Not thread safe.
class LimitedClocks {
 public:
  /// Seconds of a kernel on the device at a vertex without a limit.
  using Seconds = std::function<double(const Kernel&, VertexId)>;
  LimitedClocks(const Program& program, const System& system, Precision precision)
      : program_(program), system_(system), precision_(precision) {}

  /// How many times as long the kernel takes under the device's limit, which depends on all kernels of a step
  /// (topologies/devices/device_power.h). 1 for devices without one. The first question about a device prices
  /// a step.
  double slowdown(const Kernel& kernel, VertexId at, const Seconds& seconds);
  /// Speed of a step's kernels under it; 1 where slowdown() has not been asked.
  double speed(VertexId at) const;

 private:
  struct Limited {
    double clock = 1, speed = 1;
  };
  Limited limited(VertexId at, const Seconds& seconds) const;

  const Program& program_;
  const System& system_;
  const Precision precision_;         ///< of products
  std::map<int32_t, Limited> known_;  ///< by number of the device in the system
};

}  // namespace tandem::sim
