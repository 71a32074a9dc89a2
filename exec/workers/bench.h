// SPDX-License-Identifier: Apache-2.0
#pragma once
// A worker's device, lanes and driver, and how handlers state the memory they need. Internal to exec.
#include <memory>
#include <utility>
#include <vector>

#include "exec/run/lane_driver.h"
#include "exec/run/lanes.h"
#include "exec/run/run.h"

namespace tandem::exec {

/// The worker whose memory is asked for: known before anything is made.
struct Asked {
  const Execution& execution;
  const Program& program;
  const Stages& stages;
  uint32_t worker = 0;
  const Role& role() const { return program.roles[stages.place(worker).role]; }
  const ExecutionGraph& lowered() const { return stages.lowered(worker); }
};

/// One buffer of a worker: its length, and how its parts are counted. The one list from which buffers are
/// allocated and worker_memory() is summed.
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

/// Made by any thread; the rest by its compute lane's thread when the worker opens. Then ops of all lanes use
/// it.
struct Bench {
  Bench(Run& of, uint32_t number) : run(of), plan(of.plan()), instance(number), lanes(of, number) {}
  Asked asked() const { return {plan.execution(), plan.program(), plan.stages(), instance}; }
  float* allocate(const Need& need) const { return device->allocate(need.words()); }

  Run& run;
  const RunPlan& plan;
  const uint32_t instance;
  Lanes lanes;
  std::unique_ptr<DeviceSession> device;
  std::unique_ptr<LaneDriver> driver;
  std::vector<int64_t> bytes;  ///< [op]: bytes passed to its collective or sent, per iteration
};

}  // namespace tandem::exec
