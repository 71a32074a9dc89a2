// SPDX-License-Identifier: Apache-2.0
// An asynchronous device computes what a synchronous one does, whatever is replayed, sampled or stopped.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "exec/execute.h"
#include "exec/run/stream_driver.h"
#include "tests/exec/deferred.h"

namespace tandem::tests {
namespace {

constexpr char kCpu[] = "cpu";
const Backend kDeferred = deferred<kCpu>();

struct Setting {
  const char *model, *scheme;
  int64_t devices;
  bool data;
};

std::ostream& operator<<(std::ostream& out, const Setting& s) {
  return out << s.model << " " << s.scheme << " " << s.devices;
}

class StreamDriverTest : public testing::TestWithParam<Setting> {
 protected:
  StreamDriverTest()
      : graph_(Graph::load(GetParam().model)),
        scheme_(resolve_scheme(GetParam().scheme, {})),
        data_(load_dataset("digits", false)) {
    e_.job.graph = &graph_;
    e_.job.scheme = &scheme_;
    e_.cluster = {GetParam().devices, 1, GetParam().devices};
    e_.job.batch = 8;
    e_.job.optimizer = &optimizer("adam");
    e_.iterations = 12;
    e_.warmup = 2;
    if (GetParam().data) e_.data = &data_;
  }
  ExecutionResult on(const Backend& backend, const Keep& keep) {
    e_.backend = &backend;
    return execute(e_, keep);
  }
  Graph graph_;
  ResolvedScheme scheme_;
  Dataset data_;
  Execution e_;
};

TEST_P(StreamDriverTest, ComputesTheSame) {
  const ExecutionResult now = on(backends_registry().at("cpu"), {false, false, true});
  const ExecutionResult later = on(kDeferred, {false, false, true});
  EXPECT_EQ(now.parameters, later.parameters);
  EXPECT_EQ(now.state, later.state);
  EXPECT_EQ(now.buffers, later.buffers);
  EXPECT_EQ(now.losses, later.losses);
  EXPECT_GT(later.report.rate.samples_per_second, 0);
  EXPECT_GT(later.report.time.share.compute, 0);
  EXPECT_EQ(now.report.memory.total().n, later.report.memory.total().n);
}

INSTANTIATE_TEST_SUITE_P(
    All, StreamDriverTest,
    testing::Values(Setting{"digits-mlp", "allreduce", 1, true}, Setting{"digits-cnn", "allreduce", 1, false},
                    Setting{"digits-cnn", "allreduce:bucket=8KiB", 2, true},
                    Setting{"digits-mlp", "allreduce:bucket=8KiB,algorithm=ring", 3, true},
                    Setting{"digits-cnn", "allreduce:accumulate=2", 2, false},
                    Setting{"digits-cnn", "parameter-server:server=gpu", 2, false},
                    Setting{"digits-mlp", "local-sgd:every=3", 2, true},
                    Setting{"digits-mlp", "diloco:every=3", 2, true},
                    Setting{"digits-mlp", "elastic-averaging:every=3", 2, true},
                    Setting{"digits-mlp", "allreduce:compression=powersgd", 2, true},
                    Setting{"digits-mlp", "delayed-allreduce:delay=2", 2, true},
                    Setting{"transformer-tiny", "allreduce", 1, false},
                    Setting{"transformer-tiny:hidden=16,heads=2,vocabulary=40,sequence=8",
                            "pipeline:microbatches=4", 2, false},
                    Setting{"transformer-tiny", "hybrid:sharding=2,microbatches=2,bucket=1KiB", 2, false}));

class Alone : public testing::Test {
 protected:
  Alone() : graph_(Graph::load("digits-mlp")), scheme_(resolve_scheme("allreduce", {})) {
    e_.job.graph = &graph_;
    e_.job.scheme = &scheme_;
    e_.backend = &kDeferred;
    e_.cluster = {1, 1, 1};
    e_.job.optimizer = &optimizer("sgd");
    e_.iterations = 40;
    e_.warmup = 3;
  }
  Graph graph_;
  ResolvedScheme scheme_;
  Execution e_;
};

TEST_F(Alone, ReplaysWhatItDoesNotTime) {
  const int64_t before = DeferredDevice::replays;
  const ExecutionResult r = execute(e_);
  EXPECT_GE(DeferredDevice::replays - before, 10);
  EXPECT_EQ(r.losses.size(), 40U);
  EXPECT_FALSE(r.report.timeline.empty());
}

TEST_F(Alone, TimesEveryIterationWhenAsked) {
  const int64_t before = DeferredDevice::replays;
  const ExecutionResult r = execute(e_, {true, true, false});
  EXPECT_EQ(DeferredDevice::replays, before);
  for (const CallTime& c : r.calls) EXPECT_EQ(c.seconds.size(), 37U);
}

TEST_F(Alone, TimesCallsInSomeReplays) {
  const int64_t before = DeferredDevice::replays;
  const ExecutionResult r = execute(e_, {true, false, false});
  // Of 37 steady iterations 4 are timed op by op, as are the last 2; of the others every third is observed.
  EXPECT_GE(DeferredDevice::replays - before, 30);
  ASSERT_FALSE(r.calls.empty());
  for (const CallTime& c : r.calls) {
    EXPECT_GE(c.seconds.size(), 9U);
    EXPECT_LE(c.seconds.size(), 11U);
    for (const double s : c.seconds) EXPECT_GE(s, 0);
  }
  // The rate is of replays that nothing was timed in.
  EXPECT_GE(r.iteration_seconds.size(), 18U);
  EXPECT_LE(r.iteration_seconds.size(), 22U);
}

TEST_F(Alone, StopsWhenAsked) {
  std::atomic<bool> stop = true;
  e_.stop = &stop;
  const ExecutionResult r = execute(e_);
  EXPECT_LT(r.losses.size(), 10U);
  EXPECT_GE(r.losses.size(), 1U);
}

class Failing : public DeferredDevice {
 public:
  using DeferredDevice::DeferredDevice;
  void launch(uint32_t prepared, std::span<float* const> operands, const IterationState& step,
              Lane lane) override {
    if (++launches_ == 5) throw DeviceError("fell off the bus");
    DeferredDevice::launch(prepared, operands, step, lane);
  }

 private:
  int launches_ = 0;
};

TEST_F(Alone, AFailureEndsAllWorkers) {
  Backend b = kDeferred;
  b.open = [](const DeviceOptions& options) -> std::unique_ptr<DeviceSession> {
    auto inner = backends_registry().at("cpu").open(options);
    if (options.index == 1) return std::make_unique<Failing>(std::move(inner));
    return std::make_unique<DeferredDevice>(std::move(inner));
  };
  e_.backend = &b;
  e_.cluster = {3, 1, 3};
  for (const char* scheme : {"allreduce", "parameter-server:mode=async", "parameter-server"}) {
    scheme_ = resolve_scheme(scheme, {});
    try {
      execute(e_);
      ADD_FAILURE() << scheme;
    } catch (const DeviceError& error) {
      EXPECT_NE(std::string(error.what()).find("worker 1"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("fell off the bus"), std::string::npos);
    }
  }
}

/// A library of the device's that makes collectives: here, one that only counts.
class Counting : public DeviceGroup {
 public:
  void join(uint32_t, DeviceSession&) override { ++joined; }
  void run(uint32_t, DeviceSession&, float*, int64_t, Lane, Precision) override { ++runs; }
  void exchange(uint32_t, DeviceSession&, std::span<const DeviceMessage>, std::span<const DeviceMessage>,
                Lane) override {
    ADD_FAILURE() << "no algorithm is named";
  }
  double estimate(uint32_t, DeviceSession&, float*, int64_t elements, Lane, Precision) override {
    return 1e-6 * static_cast<double>(elements);
  }
  static inline std::atomic<int> joined{0}, runs{0};
};

TEST_F(Alone, CollectivesGoToTheLibraryThatMakesThem) {
  Backend b = kDeferred;
  b.unit = [](uint32_t index) { return "unit " + std::to_string(index); };
  b.group = [](const GroupSetup& setup) {
    EXPECT_EQ(setup.kind, CollKind::all_reduce);
    EXPECT_EQ(setup.units, (std::vector<std::string>{"unit 0", "unit 1"}));
    EXPECT_EQ(setup.id, "");
    return std::unique_ptr<DeviceGroup>(std::make_unique<Counting>());
  };
  e_.backend = &b;
  e_.cluster = {2, 1, 2};
  const int64_t before = DeferredDevice::replays;
  execute(e_);
  EXPECT_EQ(Counting::joined, 2);
  EXPECT_GT(Counting::runs, 2);
  EXPECT_GT(DeferredDevice::replays, before) << "library-made collectives are captured";
  int64_t asked = 0;
  for (const OpTime& op : execute(e_, {true, false, false}).ops) {
    if (op.collective_bytes == 0) continue;
    EXPECT_DOUBLE_EQ(op.estimate, 1e-6 * static_cast<double>(op.collective_bytes) / 4);
    ++asked;
  }
  EXPECT_GT(asked, 0);
}

/// Says when its graph is ready.
class Capturing : public DeferredDevice {
 public:
  using DeferredDevice::DeferredDevice;
  std::unique_ptr<DeviceGraph> end_capture() override {
    std::this_thread::sleep_for(std::chrono::milliseconds(10 * captured));  // not at the same time
    ++captured;
    return DeferredDevice::end_capture();
  }
  void replay(DeviceGraph& graph) override {
    EXPECT_EQ(captured, 2) << "the other's graph is not ready";
    DeferredDevice::replay(graph);
  }
  static inline std::atomic<int> captured{0};
};

/// Making a graph ready takes memory: on GPUs that reach each other that waits for what runs there, and so
/// for ever where a collective of another's graph has begun.
TEST_F(Alone, NobodyReplaysBeforeAllHaveCaptured) {
  Backend b = kDeferred;
  b.unit = [](uint32_t index) { return "unit " + std::to_string(index); };
  b.group = [](const GroupSetup&) { return std::unique_ptr<DeviceGroup>(std::make_unique<Counting>()); };
  b.open = [](const DeviceOptions& options) -> std::unique_ptr<DeviceSession> {
    return std::make_unique<Capturing>(backends_registry().at("cpu").open(options));
  };
  e_.backend = &b;
  e_.cluster = {2, 1, 2};
  Capturing::captured = 0;
  execute(e_);
  EXPECT_EQ(Capturing::captured, 2);
}

/// What is timed in a row is the library's collective alone, behind some that nobody has to wait for.
TEST_F(Alone, TimesCollectivesInARow) {
  Backend b = kDeferred;
  b.unit = [](uint32_t index) { return "unit " + std::to_string(index); };
  b.group = [](const GroupSetup&) { return std::unique_ptr<DeviceGroup>(std::make_unique<Counting>()); };
  e_.backend = &b;
  e_.cluster = {2, 1, 2};
  e_.iterations = 5;
  const int before = Counting::runs;
  const ExecutionResult plain = execute(e_);
  const int of_run = Counting::runs - before;
  const ExecutionResult measured = execute(e_, {true, false, false});
  int64_t collectives = 0;
  for (std::size_t i = 0; i < measured.ops.size(); ++i) {
    EXPECT_EQ(plain.ops[i].in_row, 0);
    EXPECT_EQ(measured.ops[i].in_row > 0, measured.ops[i].collective_bytes > 0);
    collectives += measured.ops[i].collective_bytes > 0 ? 1 : 0;
  }
  EXPECT_GT(collectives, 0);
  EXPECT_EQ(Counting::runs - before - 2 * of_run, 2 * 22 * collectives);
  EXPECT_EQ(execute(e_, {true, false, true}).ops.back().in_row, 0) << "its buffers would be lost";
}

/// What there is of it is divided by those that share it, reported, and asked before the run.
TEST_F(Alone, MemoryIsTheDevices) {
  Backend b = kDeferred;
  b.unit = [](uint32_t index) { return "unit " + std::to_string(index / 2); };  // two workers on each
  b.memory = [](uint32_t) -> int64_t { return 64 << 20; };
  e_.backend = &b;
  e_.iterations = 5;
  EXPECT_EQ(execute(e_).report.memory.capacity.n, 64 << 20);
  e_.cluster = {3, 1, 3};
  EXPECT_EQ(execute(e_).report.memory.capacity.n, 32 << 20);
  b.memory = [](uint32_t index) -> int64_t { return index < 2 ? 64 << 20 : 4096; };
  try {
    execute(e_);
    ADD_FAILURE() << "the third worker's device is too small";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("worker 2 of digits-mlp"), std::string::npos) << error.what();
  }
}

std::string route_of(const ExecutionResult& r) {
  for (const auto& [key, value] : r.report.setup.inputs) {
    if (key == "route") return value;
  }
  return "";
}

TEST_F(Alone, TheRouteBetweenDevicesIsAskedForAndReported) {
  static std::atomic<int> staged;
  staged = 0;
  Backend b = kDeferred;
  b.open = [](const DeviceOptions& options) -> std::unique_ptr<DeviceSession> {
    staged += options.route == PeerRoute::staged ? 1 : 0;
    return kDeferred.open(options);
  };
  b.reaches = [](uint32_t a, uint32_t b) { return a / 2 == b / 2; };  // pairs
  e_.backend = &b;
  for (const uint32_t workers : {1U, 2U, 3U}) {
    e_.cluster = {workers, 1, workers};
    e_.route = PeerRoute::automatic;
    const std::string chosen = route_of(execute(e_));
    EXPECT_EQ(chosen.substr(0, 10), workers == 1 ? "" : workers == 2 ? "peer" : "peer where");
    EXPECT_EQ(staged, 0);
    e_.route = PeerRoute::staged;
    EXPECT_EQ(route_of(execute(e_)), workers == 1 ? "" : "staged");
    EXPECT_EQ(staged.exchange(0), workers);
    e_.route = PeerRoute::peer;
    if (workers < 3)
      EXPECT_EQ(route_of(execute(e_)), workers == 1 ? "" : "peer");
    else
      EXPECT_THROW(execute(e_), InputError);
  }
  b.reaches = [](uint32_t, uint32_t) { return false; };
  e_.route = PeerRoute::automatic;
  EXPECT_EQ(route_of(execute(e_)), "staged");
  b.reaches = nullptr;
  e_.route = PeerRoute::staged;
  EXPECT_THROW(execute(e_), InputError);  // one memory for all
}

}  // namespace
}  // namespace tandem::tests
