// SPDX-License-Identifier: Apache-2.0
// Rung 4 of the ladder: real threads that sleep where the simulator counts. Sleeping never ends early, so no
// execution may be faster than the simulator's schedule of the same durations; nothing else is timed.
#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "exec/device/forward.h"
#include "exec/execute.h"
#include "exec/lower/execution_graph.h"
#include "sim/evaluate/events.h"
#include "tests/sim/prediction.h"
#include "topologies/system.h"

namespace tandem::tests {
namespace {

constexpr int64_t kBatch = 4;
constexpr int32_t kIterations = 6;

const Graph& model() {
  static const Graph graph = Graph::load(std::string(TANDEM_ROOT) + "/tests/cross/tiny.json");
  return graph;
}

/// What a call takes; workers differ.
std::chrono::microseconds slept(const Call& call, uint32_t worker) {
  const int64_t units = call.function == Function::update ? 1 : 1 + (call.layer + 2 * worker) % 3;
  return std::chrono::microseconds(150 * units);
}

class Sleeper : public ForwardDevice {
 public:
  Sleeper(std::unique_ptr<DeviceSession> inner, uint32_t worker)
      : ForwardDevice(std::move(inner)), worker_(worker) {}
  uint32_t prepare(const Call& call) override {
    durations_.push_back(slept(call, worker_));
    return ForwardDevice::prepare(call);
  }
  void launch(uint32_t prepared, std::span<float* const> operands, const IterationState& step,
              Lane lane) override {
    std::this_thread::sleep_for(durations_[prepared]);
    ForwardDevice::launch(prepared, operands, step, lane);
  }

 private:
  uint32_t worker_;
  std::vector<std::chrono::microseconds> durations_;
};

Backend sleeping() {
  Backend b = backends_registry().at("null");
  b.open = [](const DeviceOptions& options) -> std::unique_ptr<DeviceSession> {
    auto inner = backends_registry().at("null").open(options);
    if (!options.worker) return inner;  // a store's own
    return std::make_unique<Sleeper>(std::move(inner), options.index);
  };
  return b;
}

class Free : public BoundProgram::Messages {
 public:
  const Transfer& message(uint32_t, uint32_t, uint32_t, uint32_t) override { return none_; }
  Time apply(uint32_t, uint32_t, uint32_t) override { return {}; }

 private:
  Transfer none_;
};

/// The plan with the slept durations for computing, and everything else free.
void take_durations(BoundProgram& plan, uint32_t workers) {
  const ExecutionGraph lowered(model(), kBatch);
  const Program& p = *plan.program;
  for (std::size_t r = 0; r < plan.roles.size(); ++r) {
    const auto& ops = p.roles[r].ops;
    RoleCosts& costs = plan.roles[r];
    const uint32_t classes = r == 0 ? workers : 1;
    costs.class_of.assign(static_cast<std::size_t>(p.roles[r].mesh.size()), 0);
    if (r == 0) std::iota(costs.class_of.begin(), costs.class_of.end(), 0U);
    costs.transfer.resize(classes, costs.transfer[0]);
    costs.duration.assign(classes, std::vector<Time>(ops.size()));
    for (uint32_t w = 0; r == 0 && w < workers; ++w) {
      for (std::size_t i = 0; i < ops.size(); ++i) {
        if (ops[i].kind != OpKind::compute) continue;
        std::chrono::microseconds sum{0};
        const Task& task = p.tasks[ops[i].what];
        if (ops[i].payload == Payload::parameters || ops[i].payload == Payload::shard) {
          Call update;
          update.function = Function::update;
          sum = slept(update, w);
        }
        for (uint32_t l = task.layer; ops[i].payload == Payload::none && l < task.layer + task.layers; ++l) {
          for (const Call& c : task.pass == Pass::forward ? lowered.forward(l) : lowered.backward(l))
            sum += slept(c, w);
        }
        costs.duration[w][i] = Time{sum.count() * 1'000'000};
      }
    }
  }
  for (Transfer& t : plan.transfers) t = {};
  plan.messages = std::make_shared<Free>();
  plan.disturbance = {};
}

class Slept : public testing::TestWithParam<const char*> {};

TEST_P(Slept, NoExecutionIsFasterThanItsSchedule) {
  const ResolvedScheme scheme = resolve_scheme(GetParam(), {});
  static const System system = System::load("dgx1-v100");
  Request p = prediction_of(model(), system, scheme, 3, kBatch);
  p.job.optimizer = &optimizer("sgd");
  p.iterations = kIterations;
  BoundProgram plan = make_plan(p);
  take_durations(plan, 3);
  EvaluateOptions options;
  options.iterations = kIterations * plan.program->micro_batches;
  const Trace trace = run_events(plan, options);
  const Backend backend = sleeping();
  Execution e;
  e.job.graph = &model();
  e.job.scheme = &scheme;
  e.backend = &backend;
  e.cluster = {3, 1, 3};
  e.job.batch = kBatch;
  e.job.optimizer = p.job.optimizer;
  e.iterations = kIterations;
  e.warmup = 1;
  const ExecutionResult r = execute(e);
  EXPECT_GT(trace.makespan.seconds(), 1e-3 * kIterations) << "something was to be slept";
  EXPECT_GE(r.report.evaluation.wall_seconds, 0.999 * trace.makespan.seconds());
}

INSTANTIATE_TEST_SUITE_P(Schemes, Slept,
                         testing::Values("allreduce", "allreduce:bucket=1KiB", "allreduce:overlap=off",
                                         "allreduce:accumulate=2", "zero:stage=3,accumulate=2",
                                         "parameter-server", "parameter-server:mode=async,overlap=off",
                                         "parameter-server:mode=ssp,slack=1", "parameter-averaging:every=2",
                                         "local-sgd:every=2", "data-parallel-master"));

}  // namespace
}  // namespace tandem::tests
