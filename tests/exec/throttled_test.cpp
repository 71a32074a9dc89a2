// SPDX-License-Identifier: Apache-2.0
// A worker that is made slower does the same, later. Nothing is timed from above.
#include "exec/device/throttled.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>

#include "exec/device/forward.h"
#include "exec/execute.h"

namespace tandem::tests {
namespace {

using exec::throttled;

double processor_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// A device that computes for 2 ms in each launch, and no less.
class Busy : public ForwardDevice {
 public:
  Busy() : ForwardDevice(backends_registry().at("null").open({})) {}
  void launch(uint32_t, std::span<float* const>, const IterationState&, Lane) override {
    const double end = processor_seconds() + 0.002;
    while (processor_seconds() < end) {
    }
  }
};

TEST(Throttled, ACallTakesItsFactorAsLong) {
  const auto device = throttled(std::make_unique<Busy>(), 4);
  for (int i = 0; i < 3; ++i) {
    const double begin = processor_seconds();
    device->launch(0, {}, {}, Lane::compute);
    EXPECT_GE(processor_seconds() - begin, 0.008);
  }
}

Execution small_run(const Graph& graph, const ResolvedScheme& scheme) {
  Execution e;
  e.job.graph = &graph;
  e.job.scheme = &scheme;
  e.backend = &backends_registry().at("cpu");
  e.cluster = {2, 1, 2};
  e.job.batch = 4;
  e.job.optimizer = &optimizer("momentum");
  e.iterations = 5;
  e.warmup = 1;
  return e;
}

TEST(Throttled, WorkersThatMeetTrainTheSame) {
  const Graph graph = Graph::load(std::string(TANDEM_ROOT) + "/tests/cross/tiny.json");
  const ResolvedScheme scheme = resolve_scheme("allreduce", {});
  Execution e = small_run(graph, scheme);
  const Keep keep{.parameters = true};
  const ExecutionResult plain = execute(e, keep);
  e.throttle = {{1, 3.0}};
  const ExecutionResult slow = execute(e, keep);
  EXPECT_EQ(slow.parameters, plain.parameters);
  EXPECT_EQ(slow.losses, plain.losses);
  const auto& inputs = slow.report.setup.inputs;
  EXPECT_TRUE(std::any_of(inputs.begin(), inputs.end(), [](const auto& input) {
    return input == std::pair<std::string, std::string>("throttle.1", "3");
  }));
}

TEST(Throttled, AsynchronousBackendsAreRefused) {
  const Graph graph = Graph::load(std::string(TANDEM_ROOT) + "/tests/cross/tiny.json");
  const ResolvedScheme scheme = resolve_scheme("allreduce", {});
  Execution e = small_run(graph, scheme);
  Backend far = backends_registry().at("null");
  far.asynchronous = true;
  e.backend = &far;
  e.throttle = {{1, 3.0}};
  EXPECT_THROW(execute(e), InputError);
}

}  // namespace
}  // namespace tandem::tests
