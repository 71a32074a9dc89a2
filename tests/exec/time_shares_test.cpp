// SPDX-License-Identifier: Apache-2.0
// What a worker is said to wait for when another sleeps. Sleeping never ends early, so the others wait for at
// least as long.
#include <gtest/gtest.h>

#include <thread>

#include "exec/device/forward.h"
#include "exec/execute.h"

namespace tandem::tests {
namespace {

class Sleeper : public ForwardDevice {
 public:
  using ForwardDevice::ForwardDevice;
  void launch(uint32_t prepared, std::span<float* const> operands, const IterationState& step,
              Lane lane) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ForwardDevice::launch(prepared, operands, step, lane);
  }
};

/// Worker 1 of those whose kernels take no time sleeps before each.
Backend with_a_slow_worker() {
  Backend b = backends_registry().at("null");
  b.open = [](const DeviceOptions& options) -> std::unique_ptr<DeviceSession> {
    auto inner = backends_registry().at("null").open(options);
    if (options.index != 1 || !options.worker) return inner;
    return std::make_unique<Sleeper>(std::move(inner));
  };
  return b;
}

// The ops of other stages have numbers of their own, of which there may be more.
TEST(MeasuredShares, NameAPartnerOfTheSameStage) {
  const Backend backend = with_a_slow_worker();
  const Graph graph = Graph::load("digits-cnn");
  const ResolvedScheme scheme =
      resolve_scheme("hybrid:data=2,pipeline=2,microbatches=2,bucket=0B,order=pipeline/data/tensor", {});
  Execution e;
  e.job.graph = &graph;
  e.job.scheme = &scheme;
  e.backend = &backend;
  e.cluster = {4, 1, 4};
  e.job.batch = 2;
  e.job.optimizer = &optimizer("sgd");
  e.iterations = 6;
  e.warmup = 1;
  const Program program = make_program(e);
  EXPECT_GT(program.roles[1].ops.size(), program.roles[0].ops.size());
  const Report r = execute(e).report;
  ASSERT_EQ(r.time.waiting_for.size(), 1U);
  EXPECT_EQ(r.time.waiting_for[0].first, "worker 1");
}

TEST(MeasuredShares, NameTheWorkerThatOneWaitsFor) {
  const Backend backend = with_a_slow_worker();
  const Graph graph = Graph::load("digits-mlp");
  for (const char* name : {"allreduce:bucket=8KiB", "parameter-server:mode=sync"}) {
    SCOPED_TRACE(name);
    const ResolvedScheme scheme = resolve_scheme(name, {});
    Execution e;
    e.job.graph = &graph;
    e.job.scheme = &scheme;
    e.backend = &backend;
    e.cluster = {2, 1, 2};
    e.job.batch = 4;
    e.job.optimizer = &optimizer("sgd");
    e.iterations = 6;
    e.warmup = 1;
    const Report r = execute(e).report;
    const TimeShare& s = r.time.share;
    EXPECT_GT(s.waiting, 0.5);
    EXPECT_LT(s.exposed_communication, 0.4);
    EXPECT_NEAR(s.compute + s.exposed_communication + s.waiting + s.input + s.server + s.idle, 1, 1e-9);
    EXPECT_EQ(r.bottleneck.resource, "waiting");
    if (scheme.scheme->name != "allreduce") continue;  // who opens a gate is not measured
    ASSERT_FALSE(r.time.waiting_for.empty());
    EXPECT_EQ(r.time.waiting_for[0].first, "worker 1");
    bool drawn = false;
    for (const TimelineEntry& t : r.timeline) drawn = drawn || t.waits();
    EXPECT_TRUE(drawn);
  }
}

}  // namespace
}  // namespace tandem::tests
