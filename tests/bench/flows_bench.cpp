// SPDX-License-Identifier: Apache-2.0
// Transfers that share links (S2 and more): kind of network, flows, whether they arrive over time. The
// counters hold the simulated results; tests/sim/simgrid has SimGrid's and a program that times both in one
// run.
#include <benchmark/benchmark.h>

#include "tests/sim/flow_workloads.h"

namespace tandem::tests {
namespace {

using workloads::FlowNetwork;

void flows(benchmark::State& state, const char* kind, uint32_t spines) {
  const FlowNetwork network(kind, spines);
  const auto starts =
      workloads::random_flows(network, static_cast<uint32_t>(state.range(0)), state.range(1) != 0);
  std::vector<int64_t> finish;
  for (auto _ : state) finish = workloads::run_flows(network.capacity(), starts);
  double sum = 0;
  for (const int64_t f : finish) sum += Time{f}.seconds();
  state.counters["makespan_ns"] = Time{*std::max_element(finish.begin(), finish.end())}.seconds() * 1e9;
  state.counters["sum_us"] = sum * 1e6;
}

void sizes(benchmark::internal::Benchmark* b) {
  b->ArgsProduct({{100, 1000, 10000}, {0, 1}})->Unit(benchmark::kMillisecond);
  b->Args({100'000, 0})->Iterations(1);
}
BENCHMARK_CAPTURE(flows, fat_tree_16_spines, "fat-tree", 16)->Apply(sizes);
BENCHMARK_CAPTURE(flows, fat_tree_4_spines, "fat-tree", 4)->Apply(sizes);
BENCHMARK_CAPTURE(flows, star, "star", 0)->Apply(sizes);
BENCHMARK_CAPTURE(flows, torus, "torus", 0)->Apply(sizes);

}  // namespace
}  // namespace tandem::tests
