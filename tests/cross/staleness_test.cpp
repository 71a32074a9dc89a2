// SPDX-License-Identifier: Apache-2.0
// How stale gradients are that real threads bring to a store.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>

#include "exec/device/forward.h"
#include "exec/execute.h"
#include "sim/evaluate/events.h"
#include "tests/cross/settings.h"

namespace tandem::tests {
namespace {

/// Where the pull follows the push, a worker's gradients, each counted with itself, are together as stale as
/// there are versions up to its last one. The worker that ends last has seen all of them. When another ends,
/// each of the others has at most two iterations left, one whose gradient it sends and one that its compute
/// lane has begun: so the mean lies at most 2 (workers - 1) / iterations below workers - 1, whatever the
/// speeds.
void expect_workers_less_one(const char* text, int64_t workers) {
  constexpr int32_t kIterations = 400;
  SCOPED_TRACE(std::string(text) + ", workers: " + std::to_string(workers));
  const Setting s{text, {workers, 1, workers}};
  const ResolvedScheme scheme = resolve_scheme(s.scheme, {});
  Execution e = execution(s, scheme, "cpu", kIterations);
  e.warmup = 0;
  const ExecutionResult r = execute(e);
  EXPECT_EQ(r.report.staleness.all.count(), kIterations * workers);
  const auto others = static_cast<double>(workers - 1);
  EXPECT_LE(r.report.staleness.all.mean(), others + 1e-9);
  EXPECT_GE(r.report.staleness.all.mean(), others - 2 * others / kIterations);
  double most = 0;
  ASSERT_EQ(r.report.staleness.by_worker.size(), static_cast<std::size_t>(workers));
  for (uint32_t w = 0; w < workers; ++w) {
    const Histogram& worker = r.report.staleness.by_worker[w];
    EXPECT_EQ(worker.count(), r.worker_iterations[w]);
    most = std::max(most, (worker.mean() + 1) * static_cast<double>(worker.count()));
  }
  EXPECT_DOUBLE_EQ(most, static_cast<double>(kIterations * workers));
}

TEST(Execute, AsynchronousStalenessIsWorkersLessOne) {
  for (const int64_t workers : {2, 4}) {
    expect_workers_less_one("parameter-server:mode=async,overlap=off", workers);
    expect_workers_less_one("hogwild", workers);
  }
}

/// All workers begin on version 0, so that each one's first gradients are less stale than its later ones: in
/// lock step 0, 1, 2 and 3 of four. Warm-up leaves these out.
TEST(Execute, StalenessIsCountedAfterWarmup) {
  constexpr int64_t kWarmup = 10;
  const std::pair<const char*, int64_t> schemes[] = {{"parameter-server:mode=async,overlap=off", 1},
                                                     {"elastic-averaging:mode=async,every=5", 5},
                                                     {"async-diloco:every=5", 5},
                                                     {"gossip", 1}};
  for (const auto& [text, every] : schemes) {
    const Setting s{text, {4, 1, 4}};
    const ResolvedScheme scheme = resolve_scheme(s.scheme, {});
    Execution e = execution(s, scheme, "null", 50);
    // Fast workers may make more iterations than slow ones. In each a worker pushes as many slices.
    const auto slices = [&, every = every](int64_t warmup) {
      e.warmup = static_cast<int32_t>(warmup);
      const ExecutionResult r = execute(e);
      int64_t pushes = 0;
      for (const int64_t made : r.worker_iterations)
        pushes += std::max<int64_t>(0, made / every - warmup / every);
      EXPECT_EQ(r.report.staleness.all.count() % pushes, 0) << s.scheme;
      return r.report.staleness.all.count() / pushes;
    };
    EXPECT_EQ(slices(kWarmup), slices(0)) << text;
    e.warmup = 1000;
    EXPECT_GT(execute(e).report.staleness.all.count(), 0) << text << ": the last iteration counts always";
  }
}

/// Steps of integer gradients: none is lost, whoever adds at the same time, and what an optimiser moves
/// beyond them is each worker's own.
TEST(Execute, NothingIsLostWithoutALock) {
  for (const Backend& backend : backends()) {
    const Setting s{"hogwild", {4, 1, 4}};
    const ResolvedScheme scheme = resolve_scheme(s.scheme, {});
    Execution e = execution(s, scheme, "cpu", 60);
    e.backend = &backend;
    e.integer_gradients = true;
    const ExecutionResult r = execute(e, {false, false, true});
    EXPECT_EQ(r.versions, 240);
    EXPECT_EQ(r.updates, 240);
    for (std::size_t i = 0; i < r.parameters.size(); ++i) {
      int64_t sum = 0;
      for (uint32_t w = 0; w < 4; ++w) {
        for (int32_t t = 0; t < r.worker_iterations[w]; ++t)
          sum += integer_gradient(w, static_cast<uint32_t>(t), static_cast<int64_t>(i));
      }
      ASSERT_EQ(static_cast<double>(r.parameters[i]), static_cast<double>(-sum)) << backend.name;
    }
  }
}

/// A server merges one gradient after the other; without a lock they are merged beside each other.
TEST(Simulate, MergesOverlapWithoutALock) {
  const Graph vgg = Graph::load("vgg16");
  const auto run = [&](const char* text) {
    const Setting s{text, {4, 1, 4}};
    const ResolvedScheme scheme = resolve_scheme(text, {});
    Request p = prediction(s, scheme, 60);
    p.job.graph = &vgg;
    p.job.batch = 1;
    const BoundProgram plan = make_plan(p);
    EvaluateOptions options;
    options.iterations = 60;
    const Trace trace = run_events(plan, options);
    EXPECT_NEAR(trace.staleness.mean(), 3, 0.2) << text;
    EXPECT_EQ(trace.versions, 240) << text;
    const double steps = (trace.iteration_end.at(50) - trace.iteration_end.at(10)).seconds() / 40;
    return std::pair{steps, plan.messages->apply(0, 0, 0).seconds()};
  };
  const auto [locked, merge] = run("parameter-server:mode=async,overlap=off,shards=1");
  const auto [beside, same] = run("hogwild");
  EXPECT_EQ(merge, same);
  EXPECT_GE(locked, 4 * merge * 0.999) << "one at a time";
  EXPECT_LT(beside, 4 * merge);
  EXPECT_GT(beside, merge);
}

/// Time for workers that compute nothing: each ends its k-th step at k times the length of its steps, and
/// waits until all that others have ended by then is merged.
class Clock {
 public:
  explicit Clock(std::vector<int64_t> steps) : steps_(std::move(steps)), begun_(steps_.size()) {}
  void begin(uint32_t worker, uint32_t iteration) {
    const std::lock_guard guard(mutex_);
    begun_[worker] = iteration;
    changed_.notify_all();
  }
  void end(uint32_t worker, uint32_t iteration) {
    std::unique_lock lock(mutex_);
    const int64_t now = (iteration + 1) * steps_[worker];
    // In a run's last iterations some will begin no more: then nobody is waited for.
    changed_.wait_for(lock, std::chrono::seconds(1), [&] {
      for (uint32_t other = 0; other < begun_.size(); ++other) {
        const bool first = steps_[other] < steps_[worker];  // of those that end at the same time
        if (other != worker && (begun_[other] + 1) * steps_[other] + (first ? 0 : 1) <= now) return false;
      }
      return true;
    });
  }

 private:
  std::vector<int64_t> steps_;
  std::vector<int64_t> begun_;  ///< [worker]: its iteration, all before which are merged
  std::mutex mutex_;
  std::condition_variable changed_;
};

Clock* clock = nullptr;

class Clocked : public ForwardDevice {
 public:
  Clocked(std::unique_ptr<DeviceSession> inner, uint32_t worker)
      : ForwardDevice(std::move(inner)), worker_(worker) {}
  uint32_t prepare(const Call& call) override {
    const uint32_t index = ForwardDevice::prepare(call);
    const bool backward = call.pass != Pass::forward && call.pass != Pass::update;
    if (backward && call.layer < lowest_) lowest_ = call.layer, last_ = index;
    if (call.pass == Pass::forward && first_ == UINT32_MAX) first_ = index;
    return index;
  }
  void launch(uint32_t prepared, std::span<float* const> operands, const IterationState& step,
              Lane lane) override {
    if (prepared == first_) clock->begin(worker_, step.iteration);
    if (prepared == last_) clock->end(worker_, step.iteration);
    ForwardDevice::launch(prepared, operands, step, lane);
  }

 private:
  uint32_t worker_;
  uint32_t first_ = UINT32_MAX, last_ = UINT32_MAX;  ///< an iteration's first call and its last layer's
  uint32_t lowest_ = UINT32_MAX;
};

/// While the slow one of four computes, each other pushes twice; and the run ends for all at about one time.
TEST(Execute, StalenessOfASlowWorkerIsWhatTheOthersDoMeanwhile) {
  Clock of_this({1, 1, 1, 2});
  clock = &of_this;
  Backend backend = backends_registry().at("null");
  backend.open = [](const DeviceOptions& options) -> std::unique_ptr<DeviceSession> {
    auto inner = backends_registry().at("null").open(options);
    if (!options.worker) return inner;  // the store's own
    return std::make_unique<Clocked>(std::move(inner), options.index);
  };
  const Setting s{"parameter-server:mode=async,overlap=off", {4, 1, 4}};
  const ResolvedScheme scheme = resolve_scheme(s.scheme, {});
  Execution e = execution(s, scheme, "null", 100);
  e.backend = &backend;
  const ExecutionResult r = execute(e);
  EXPECT_EQ(std::accumulate(r.worker_iterations.begin(), r.worker_iterations.end(), 0), 400);
  EXPECT_NEAR(r.worker_iterations[3], 400 / 7, 2);
  EXPECT_NEAR(r.report.staleness.by_worker[3].mean(), 6, 0.3);
  EXPECT_NEAR(r.report.staleness.by_worker[0].mean(), 2.5, 0.1);
  EXPECT_NEAR(r.report.staleness.all.mean(), 3, 0.1);
}

/// A node's devices push a share each that no other of them changes, so nodes count as workers do above. Of
/// three iterations at most that a node has begun, one device may still have to send all its shares.
TEST(Execute, StalenessOfNodesThatPushAsOneCountsNodes) {
  constexpr int32_t kIterations = 100;
  for (const int64_t nodes : {1, 2, 3}) {
    SCOPED_TRACE(nodes);
    const Setting s{"parameter-server:mode=async,push=node,overlap=off", {2 * nodes, nodes, 2}};
    const ResolvedScheme scheme = resolve_scheme(s.scheme, {});
    Execution e = execution(s, scheme, "null", kIterations);
    e.warmup = 0;
    const ExecutionResult r = execute(e);
    const Program p = make_program(e);
    const int64_t slices = static_cast<int64_t>(p.buckets.size()) * p.roles[p.stores[0].role].mesh.size();
    EXPECT_EQ(r.report.staleness.all.count(), 2 * nodes * kIterations * slices);
    const auto others = static_cast<double>(nodes - 1);
    EXPECT_LE(r.report.staleness.all.mean(), others + 1e-9);
    EXPECT_GE(r.report.staleness.all.mean(), others - 3 * others / kIterations);
  }
}

}  // namespace
}  // namespace tandem::tests
