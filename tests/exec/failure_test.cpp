// SPDX-License-Identifier: Apache-2.0
// What ends a run early: a worker that fails, wherever the others wait, and a request to stop.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>

#include "exec/device/forward.h"
#include "exec/execute.h"

namespace tandem::tests {
namespace {

/// The null device, until its `left`-th launch.
class Fragile : public ForwardDevice {
 public:
  Fragile(const DeviceOptions& options, int64_t left)
      : ForwardDevice(backends_registry().at("null").open(options)), left_(left) {}
  void launch(uint32_t prepared, std::span<float* const> operands, const IterationState& step,
              Lane lane) override {
    if (left_-- == 0) throw DeviceError("out of order");
    ForwardDevice::launch(prepared, operands, step, lane);
  }

 private:
  int64_t left_;
};

int64_t launches_left = 0;  ///< of worker 1; below zero: it cannot even be opened

/// Worker 1's device fails; a store's own device is opened as number 0.
Backend fragile() {
  Backend b = backends_registry().at("null");
  b.open = [](const DeviceOptions& options) -> std::unique_ptr<DeviceSession> {
    if (options.index != 1) return backends_registry().at("null").open(options);
    if (launches_left < 0) throw DeviceError("not there");
    return std::make_unique<Fragile>(options, launches_left);
  };
  return b;
}

class Early : public testing::TestWithParam<const char*> {
 protected:
  Early()
      : graph_(Graph::load(std::string(TANDEM_ROOT) + "/tests/cross/tiny.json")),
        scheme_(resolve_scheme(GetParam(), {})) {
    e_.job.graph = &graph_;
    e_.job.scheme = &scheme_;
    e_.backend = &backends_registry().at("null");
    e_.cluster = {3, 1, 3};
    e_.job.batch = 4;
    e_.job.optimizer = &optimizer("sgd");
    e_.iterations = 100000;
    e_.warmup = 1;
  }
  Graph graph_;
  ResolvedScheme scheme_;
  Execution e_;
};

TEST_P(Early, AWorkerThatFailsEndsTheRunAndIsNamed) {
  static const Backend backend = fragile();
  e_.backend = &backend;
  for (const int64_t left : {-1, 0, 1, 57, 400}) {
    launches_left = left;
    try {
      execute(e_);
      ADD_FAILURE() << "nothing failed";
    } catch (const DeviceError& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("worker 1"), std::string::npos) << text;
      EXPECT_NE(text.find("lane compute"), std::string::npos) << text;
      EXPECT_EQ(text.find("of iteration ") != std::string::npos, left >= 0) << text;
      EXPECT_NE(text.find(left < 0 ? "not there" : "out of order"), std::string::npos) << text;
    }
  }
}

/// But for workers that do not wait for each other: those end at a common time (semantics.md 1.7).
TEST_P(Early, AStopEndsAllWorkersInTheSameIteration) {
  std::atomic<bool> stop{false};
  e_.stop = &stop;
  e_.progress = [&](int32_t iteration) {
    if (iteration == 5) stop = true;
  };
  const ExecutionResult r = execute(e_, {false, true, false});
  std::map<uint32_t, uint32_t> last;
  for (const Span& s : r.spans) last[s.instance] = std::max(last[s.instance], s.iteration);
  ASSERT_EQ(last.size(), 3U);
  const bool free = free_running(make_program(e_));
  for (const auto& [worker, iteration] : last) {
    EXPECT_TRUE(free || iteration == last.at(0)) << "worker " << worker << ": " << iteration;
  }
  const auto furthest = std::max_element(last.begin(), last.end(),
                                         [](const auto& x, const auto& y) { return x.second < y.second; });
  EXPECT_GE(furthest->second, 5U);
  EXPECT_LT(furthest->second, 99999U);
  EXPECT_GT(r.report.rate.samples_per_second, 0);
}

INSTANTIATE_TEST_SUITE_P(Schemes, Early,
                         testing::Values("allreduce", "allreduce:algorithm=ring,bucket=0B",
                                         "parameter-server", "parameter-server:mode=async,shards=2",
                                         "parameter-server:mode=ssp,slack=1",
                                         "parameter-server:mode=backup,backup=1", "local-sgd:every=4",
                                         "data-parallel-master"));

}  // namespace
}  // namespace tandem::tests
