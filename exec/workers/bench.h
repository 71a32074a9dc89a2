// SPDX-License-Identifier: Apache-2.0
#pragma once
// A worker's device, lanes and driver, and how whoever allocates there states what it needs. Internal to
// exec.
#include <memory>
#include <utility>
#include <vector>

#include "exec/run/lane_driver.h"
#include "exec/run/lanes.h"
#include "exec/run/run.h"

namespace tandem::exec {

/// Whose memory is asked for: known before anything is made.
struct Asked {
  const Execution& execution;
  const Program& program;
  const Stages& stages;
  uint32_t worker = 0;
  const Role& role() const { return program.roles[stages.place(worker).role]; }
  const ExecutionGraph& lowered() const { return stages.lowered(worker); }
};

/// One buffer of a worker: how long it is, and what its parts count as. The one list that buffers are
/// allocated by and that worker_memory() sums up.
struct Need {
  struct Part {
    Bytes bytes;
    Bytes MemoryUse::*use;
  };
  std::vector<Part> parts;
  Need(int64_t words, Bytes MemoryUse::*use) : parts{{Bytes{4} * words, use}} {}
  Need(std::vector<Part> of) : parts(std::move(of)) {}
  int64_t words() const;
};
using Needs = std::vector<Need>;

/// Made by any thread; the rest, when the worker opens, by its compute lane's. Then ops of all lanes use it.
struct Bench {
  Bench(Run& of, uint32_t number) : run(of), instance(number), lanes(of, number) {}
  Asked asked() const { return {run.execution(), run.program(), run.stages(), instance}; }
  float* allocate(const Need& need) const { return device->allocate(need.words()); }

  Run& run;
  const uint32_t instance;
  Lanes lanes;
  std::unique_ptr<DeviceSession> device;
  std::unique_ptr<LaneDriver> driver;
  std::vector<int64_t> bytes;  ///< [op]: that it hands to its collective or sends, in an iteration
};

}  // namespace tandem::exec
