// SPDX-License-Identifier: Apache-2.0
// What an execution says that it holds, against what it allocates; what the machine says that it has.
#include "exec/workers/memory.h"
#include "exec/execute.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "exec/device/forward.h"

namespace tandem::tests {
namespace {

std::atomic<int64_t> allocated;  ///< elements, by workers

class Counting : public ForwardDevice {
 public:
  using ForwardDevice::ForwardDevice;
  float* allocate(int64_t elements) override {
    allocated += elements;
    return ForwardDevice::allocate(elements);
  }
};

Backend counting() {
  Backend b = backends_registry().at("null");
  b.open = [](const DeviceOptions& options) -> std::unique_ptr<DeviceSession> {
    auto inner = backends_registry().at("null").open(options);
    if (!options.worker) return inner;  // a server's own
    return std::make_unique<Counting>(std::move(inner));
  };
  b.copies = [](const Call& call, Precision precision) {
    const bool multiplies = call.function == Function::gemm && call.pass != Pass::backward_weights;
    CopyWish wish;
    if (multiplies && element_bytes(precision) == 2) wish.half = 1U << 2;
    return wish;
  };
  return b;
}

TEST(Memory, IsWhatWorkersAllocate) {
  const Graph graph = Graph::load(std::string(TANDEM_ROOT) + "/tests/cross/tiny.json");
  const Dataset data = load_dataset(std::string(TANDEM_ROOT) + "/tests/cross/points.csv", false);
  const Backend backend = counting();
  for (const char* text :
       {"allreduce", "allreduce:accumulate=3", "zero:stage=3,bucket=1KiB", "zero:stage=2,accumulate=2",
        "zero:stage=2,bucket=0B", "fsdp:bucket=0B,accumulate=2", "zero:stage=1,accumulate=2",
        "hybrid:sharding=3,bucket=1KiB", "parameter-server", "data-parallel-master", "local-sgd", "diloco",
        "elastic-averaging", "elastic-averaging:mode=async", "delayed-allreduce:delay=2", "gossip",
        "allreduce:compression=int8", "allreduce:compression=powersgd,rank=1,bucket=0B"}) {
    const ResolvedScheme scheme = resolve_scheme(text, {});
    for (const Precision precision : {Precision::fp32, Precision::bf16}) {
      for (const Dataset* samples : {static_cast<const Dataset*>(nullptr), &data}) {
        Execution e;
        e.job.graph = &graph;
        e.job.scheme = &scheme;
        e.backend = &backend;
        e.cluster = {3, 1, 3};
        e.job.batch = 4;
        e.job.precision = precision;
        e.job.optimizer = &optimizer("adam");
        e.iterations = 2;
        e.data = samples;
        allocated = 0;
        execute(e);
        const Program program = make_program(e);
        const Stages stages(e, program);
        MemoryUse all;
        for (uint32_t w = 0; w < 3; ++w) {
          const MemoryUse m = worker_memory(e, program, stages, w);
          all.workspace += m.total();
          all.optimizer += m.optimizer;
        }
        EXPECT_EQ(4 * allocated, all.workspace.n)
            << text << " in " << name(precision) << (samples != nullptr ? " with data" : "");
        // Adam's two vectors, once a worker, or once in all where they are sharded.
        const bool sharded = program.sharding.state > 1;
        EXPECT_TRUE(!sharded || all.optimizer.n == 2 * 4 * stages.whole().parameters()) << text;
      }
    }
  }
}

/// What is offloaded is on the host, where a worker has its own share.
TEST(Memory, OfOffloadedIsWhatWorkersAllocate) {
  const Graph graph = Graph::load(std::string(TANDEM_ROOT) + "/tests/cross/tiny.json");
  const Backend backend = counting();
  for (const auto& [text, offload] : std::initializer_list<std::pair<const char*, const char*>>{
           {"allreduce", "optimizer"},
           {"zero:stage=2,bucket=0B,accumulate=2", "optimizer+gradients"},
           {"zero:stage=3,bucket=0B", "optimizer"},
           {"zero:stage=3,bucket=0B", "optimizer+parameters"}}) {
    SCOPED_TRACE(fmt::format("{} with {}", text, offload));
    const ResolvedScheme scheme = resolve_scheme(text, {});
    Execution e;
    e.job.graph = &graph;
    e.job.scheme = &scheme;
    e.job.offload = parse_offload(offload, {});
    e.backend = &backend;
    e.cluster = {2, 1, 2};
    e.job.batch = 4;
    e.job.optimizer = &optimizer("adam");
    e.iterations = 2;
    allocated = 0;
    execute(e);
    const Program program = make_program(e);
    const Stages stages(e, program);
    const MemoryUse a = worker_memory(e, program, stages, 0), b = worker_memory(e, program, stages, 1);
    EXPECT_EQ(4 * allocated, a.total().n + b.total().n);
    const int64_t holders = program.sharding.state > 1 ? 1 : 2;  // of each element
    // Parameters, gradients and Adam's two vectors; where micro-batches are summed there, once more.
    EXPECT_EQ(a.host.n + b.host.n,
              holders * 4 * stages.whole().parameters() * (e.job.offload.gradients ? 5 : 4));
    EXPECT_EQ(a.parameters.n == 0, e.job.offload.parameters);
  }
}

/// 15 KB of parameters and 1 KB of the rest, on devices of 45 KB.
TEST(Memory, AModelThatOneDeviceDoesNotHoldRunsSharded) {
  std::string layers;
  for (int i = 0; i < 15; ++i) layers += R"({"type": "linear", "features": 16, "bias": false},)";
  const Graph graph =
      Graph::from_json(Json::parse(R"({"name": "chain", "summary": "", "inputs": {"x": [16]}, "layers": [)" +
                                       layers + R"({"type": "mse"}]})",
                                   "test.json"));
  Backend backend = backends_registry().at("cpu");
  backend.unit = [](uint32_t index) { return std::to_string(index); };
  backend.memory = [](uint32_t) { return int64_t{45'000}; };
  const auto run = [&](const char* text) {
    const ResolvedScheme scheme = resolve_scheme(text, {});
    Execution e;
    e.job.graph = &graph;
    e.job.scheme = &scheme;
    e.backend = &backend;
    e.cluster = {2, 1, 2};
    e.job.batch = 1;
    e.job.optimizer = &optimizer("adam");
    e.iterations = 2;
    return execute(e).report.memory;
  };
  EXPECT_THROW(run("allreduce"), InputError);               // 4 x 15 KB and the rest
  EXPECT_THROW(run("zero:stage=1,bucket=0B"), InputError);  // 3 x
  EXPECT_LE(run("zero:stage=2,bucket=0B").total().n, 45'000);
  EXPECT_LE(run("fsdp:bucket=0B").total().n, 40'000);
}

TEST(Memory, OfStagesIsWhatTheyAllocate) {
  const Graph graph = Graph::load(std::string(TANDEM_ROOT) + "/tests/cross/split.json");
  const Backend backend = counting();
  for (const char* text :
       {"pipeline:microbatches=4", "pipeline:schedule=interleaved", "tensor-parallel",
        "hybrid:pipeline=2,tensor=2,microbatches=3",
        "hybrid:pipeline=2,sharding=3,microbatches=3,bucket=1KiB",
        "hybrid:tensor=2,sharding=2,microbatches=2", "hybrid:pipeline=2,sharding=1,microbatches=2"}) {
    const ResolvedScheme scheme = resolve_scheme(text, {});
    Execution e;
    e.job.graph = &graph;
    e.job.scheme = &scheme;
    e.backend = &backend;
    e.cluster = {4, 1, 4};
    if (std::string_view(text).starts_with("tensor")) e.cluster = {2, 1, 2};
    e.job.batch = 4;
    e.job.optimizer = &optimizer("adam");
    e.iterations = 2;
    allocated = 0;
    execute(e);
    const Program program = make_program(e);
    const Stages stages(e, program);
    int64_t all = 0;
    for (uint32_t w = 0; w < stages.devices(); ++w) all += worker_memory(e, program, stages, w).total().n;
    EXPECT_EQ(4 * allocated, all) << text;
  }
}

void write(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

TEST(Memory, AvailableIsTheLeastOfAllLimits) {
  const std::filesystem::path root = std::filesystem::path(testing::TempDir()) / "tandem-memory";
  std::filesystem::remove_all(root);
  write(root / "proc/meminfo", "MemTotal:  32000000 kB\nMemAvailable:    8000000 kB\n");
  EXPECT_EQ(available_memory(root).bytes.n, 8000000LL * 1024);
  EXPECT_EQ(available_memory(root).limit, "MemAvailable");
  // Version 2: the group's own limit is none, but that of the group around it counts.
  write(root / "proc/self/cgroup", "0::/outer/inner\n");
  write(root / "sys/fs/cgroup/outer/inner/memory.max", "max\n");
  write(root / "sys/fs/cgroup/outer/inner/memory.current", "1000\n");
  write(root / "sys/fs/cgroup/outer/memory.max", "3000000000\n");
  write(root / "sys/fs/cgroup/outer/memory.current", "1000000000\n");
  write(root / "sys/fs/cgroup/outer/memory.stat", "anon 5\ninactive_file 400000000\n");
  EXPECT_EQ(available_memory(root).bytes.n, 2'400'000'000);
  EXPECT_EQ(available_memory(root).limit, "the control group's limit");
  // Version 1, in which no limit is a very large number.
  write(root / "proc/self/cgroup", "5:cpu:/x\n4:memory:/job\n");
  write(root / "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write(root / "sys/fs/cgroup/memory/memory.usage_in_bytes", "5000000000\n");
  write(root / "sys/fs/cgroup/memory/job/memory.limit_in_bytes", "2000000000\n");
  write(root / "sys/fs/cgroup/memory/job/memory.usage_in_bytes", "1500000000\n");
  EXPECT_EQ(available_memory(root).bytes.n, 500'000'000);
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace tandem::tests
