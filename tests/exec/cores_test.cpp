// SPDX-License-Identifier: Apache-2.0
// Which processors workers have, on machines that are not there, and whether threads go where they are sent.
#include "exec/device/cores.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <thread>

#include "exec/device/backend.h"
#include "exec/execute.h"

namespace tandem::tests {
namespace {

using Lists = std::vector<std::vector<int>>;

Lists compute_of(const std::vector<WorkerCores>& workers) {
  Lists out;
  for (const WorkerCores& w : workers) out.push_back(w.compute);
  return out;
}
Lists communicate_of(const std::vector<WorkerCores>& workers) {
  Lists out;
  for (const WorkerCores& w : workers) out.push_back(w.communicate);
  return out;
}

std::string refusal(const Processors& processors, const BindRequest& request) {
  try {
    assign_cores(processors, request);
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

/// Two sockets whose processors Linux numbers in turn.
const Processors kTwoSockets{{{0, 2, 4, 6}, {1, 3, 5, 7}}};

TEST(Cores, WorkersHaveProcessorsOfTheirOwnSocketBySocket) {
  EXPECT_EQ(compute_of(assign_cores(kTwoSockets, {Bind::core, 4, 2, 0})),
            (Lists{{0, 2}, {4, 6}, {1, 3}, {5, 7}}));
  EXPECT_EQ(compute_of(assign_cores(kTwoSockets, {Bind::core, 3, 4, 0})),
            (Lists{{0, 2, 4, 6}, {1, 3, 5, 7}, {0, 2, 4, 6}}))
      << "in turn where there are too few";
}

/// As the PRACE guide's 22 threads and two servers for each of two processes of a node.
TEST(Cores, SomeDoNothingButCommunicate) {
  const auto by_core = assign_cores(kTwoSockets, {Bind::core, 2, 3, 1});
  EXPECT_EQ(compute_of(by_core), (Lists{{0, 2, 4}, {1, 3, 5}}));
  EXPECT_EQ(communicate_of(by_core), (Lists{{6}, {7}}));
  const auto by_node = assign_cores(kTwoSockets, {Bind::numa, 4, 1, 1});
  EXPECT_EQ(compute_of(by_node), (Lists{{0, 2}, {0, 2}, {1, 3}, {1, 3}}));
  EXPECT_EQ(communicate_of(by_node), (Lists{{4}, {6}, {5}, {7}}));
}

TEST(Cores, NodesAreDealtOutInEqualRuns) {
  EXPECT_EQ(compute_of(assign_cores(kTwoSockets, {Bind::numa, 3, 2, 0})),
            (Lists{{0, 2, 4, 6}, {0, 2, 4, 6}, {1, 3, 5, 7}}));
  EXPECT_EQ(compute_of(assign_cores(kTwoSockets, {Bind::numa, 1, 2, 0})), (Lists{{0, 2, 4, 6}}));
  EXPECT_EQ(compute_of(assign_cores(kTwoSockets, {Bind::none, 2, 2, 0})), (Lists{{}, {}}));
}

TEST(Cores, TooFewAreRefused) {
  EXPECT_EQ(
      refusal({{{0, 1}}}, {Bind::core, 2, 1, 1}),
      "comm-cores=1: 2 workers of 1 thread need 4 processors with those that communicate, of which this "
      "machine has 2");
  EXPECT_EQ(refusal(kTwoSockets, {Bind::numa, 3, 2, 1}),
            "comm-cores=1: 2 workers of 2 threads need 6 processors with those that communicate, of which "
            "their NUMA node has 4");
  EXPECT_NE(refusal(kTwoSockets, {Bind::none, 1, 1, 1}).find("--bind core or numa"), std::string::npos);
  EXPECT_EQ(refusal(kTwoSockets, {Bind::core, 2, 3, 1}), "");
}

TEST(Cores, ThisMachineHasSome) {
  const Processors here = machine_processors();
  ASSERT_GE(here.count(), 1U);
  std::set<int> all;
  for (const auto& node : here.nodes) {
    EXPECT_FALSE(node.empty());
    all.insert(node.begin(), node.end());
  }
  EXPECT_EQ(all.size(), here.count()) << "each once";
}

/// "Cpus_allowed_list" of every thread of this process, as Linux writes it.
std::multiset<std::string> affinities() {
  std::multiset<std::string> out;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(task.path() / "status");
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with("Cpus_allowed_list:")) out.insert(line.substr(line.find_last_of(" \t") + 1));
    }
  }
  return out;
}

/// The threads of two workers, each with a core to communicate on, while they train.
TEST(Cores, ThreadsOfARunAreWhereTheyBelong) {
  const Processors here = machine_processors();
  if (here.count() < 2) GTEST_SKIP() << "one processor";
  const int a = here.nodes.front().front(), b = here.nodes.back().back();
  const Graph graph = Graph::load("digits-mlp");
  const ResolvedScheme scheme = resolve_scheme("allreduce:comm-cores=1,bucket=0B", {});
  Execution e;
  e.job.graph = &graph;
  e.job.scheme = &scheme;
  e.backend = &backends_registry().at("cpu");
  e.cluster = {2, 2, 1};
  e.rate_limit = RateLimit{Bandwidth{1e9}, Time{}};
  e.job.batch = 8;
  e.job.optimizer = &optimizer("sgd");
  e.iterations = 4;
  // As if each were two: both workers compute on one and communicate on the other.
  e.processors = Processors{{{a, b, a, b}}};
  std::multiset<std::string> seen;
  e.progress = [&](int32_t i) {
    if (i == 2) seen = affinities();
  };
  execute(e);
  EXPECT_EQ(seen.count(std::to_string(a)), 2U) << "two threads that compute";
  EXPECT_GE(seen.count(std::to_string(b)), 3U) << "two comm lanes, and those of the links";
  e.processors = Processors{{{a, b}}};
  EXPECT_THROW(execute(e), InputError);
  EXPECT_THROW(check_cores(e), InputError);
  e.backend = &backends_registry().at("null");
  EXPECT_NO_THROW(check_cores(e));
  EXPECT_FALSE(execute(e).report.notes.empty()) << "threads that compute nothing are not bound";
}

/// Does the thread make numbers below the least normal one?
bool makes_denormals() {
  volatile float least = std::numeric_limits<float>::min();
  return least / 2 != 0;
}

TEST(CpuSession, LeavesTheThreadThatOpenedItAsItWas) {
  const auto open = [] { return backends_registry().at("cpu").open({0, Precision::fp32, 1}); };
  ASSERT_TRUE(makes_denormals());
  auto first = open(), second = open();
#ifdef __SSE__
  EXPECT_FALSE(makes_denormals());
#endif
  first.reset();
#ifdef __SSE__
  EXPECT_FALSE(makes_denormals()) << "the second goes on";
#endif
  second.reset();
  EXPECT_TRUE(makes_denormals());
  first = open();
  std::thread([&] {
    first.reset();
    second = open();
  }).join();
  second.reset();  // of a thread that has ended
  open();
  EXPECT_TRUE(makes_denormals()) << "after one that ended in another thread";
}

}  // namespace
}  // namespace tandem::tests
