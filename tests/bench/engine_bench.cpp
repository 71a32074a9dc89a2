// SPDX-License-Identifier: Apache-2.0
// The published workloads (W1, W2, W2j, W2k, W3, S1, hold model) and asynchronous servers. Counters hold
// the simulated results, to be checked against the published ones.
#include <benchmark/benchmark.h>

#include <cmath>

#include "sim/evaluate/evaluate.h"
#include "sim/evaluate/events.h"
#include "sim/evaluate/fold.h"
#include "sim/evaluate/sweep.h"
#include "sim/network/steps.h"
#include "tests/sim/workloads.h"

namespace tandem::tests {
namespace {

using namespace workloads;  // NOLINT: a benchmark program

void report(benchmark::State& state, const Trace& trace) {
  state.counters["simulated_us"] = trace.makespan.seconds() * 1e6;
  state.counters["events"] = static_cast<double>(trace.events);
  state.counters["events/s"] =
      benchmark::Counter(static_cast<double>(trace.events), benchmark::Counter::kIsIterationInvariantRate);
}

/// W1 and S1 (star), every message of every rank.
void ring_messages(benchmark::State& state) {
  const auto ranks = static_cast<uint32_t>(state.range(0));
  const double bytes = static_cast<double>(static_cast<int64_t>(kRingBytes) / ranks);
  const int64_t step = picoseconds(bytes / kRingBandwidth) + kRingLatency;
  StepRun run;
  for (auto _ : state) {
    run = run_steps(
        ranks, 2 * (ranks - 1), [&](uint32_t r, uint32_t) { return r + 1 == ranks ? 0 : r + 1; },
        [&](uint32_t, uint32_t) { return step; });
  }
  state.counters["simulated_us"] = Time{run.makespan}.seconds() * 1e6;
  state.counters["messages"] = static_cast<double>(run.messages);
  state.counters["messages/s"] =
      benchmark::Counter(static_cast<double>(run.messages), benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(ring_messages)
    ->Name("W1_S1_messages")
    ->Arg(8)
    ->Arg(64)
    ->Arg(256)
    ->Arg(1024)
    ->Unit(benchmark::kMillisecond);
BENCHMARK(ring_messages)->Name("W1_messages")->Arg(4096)->Unit(benchmark::kMillisecond)->Iterations(1);

/// The same as a Program, every message an op of its sender and one of its receiver, with what a prediction
/// records. Making and checking it is timed too.
void messages_as_ops(benchmark::State& state, BoundProgram (*make)(int32_t, double),
                     Trace (*run)(const BoundProgram&, const EvaluateOptions&)) {
  Trace trace;
  for (auto _ : state)
    trace = run(make(static_cast<int32_t>(state.range(0)), kRingBytes),
                {.iterations = 1, .kept_iterations = 0, .fingerprint = false});
  report(state, trace);
}
BENCHMARK_CAPTURE(messages_as_ops, alike, ring_program, evaluate)
    ->Name("W1_program")
    ->Arg(64)
    ->Arg(1024)
    ->Unit(benchmark::kMillisecond);
/// A role for each rank.
BENCHMARK_CAPTURE(messages_as_ops, events, ring_of_roles, run_events)
    ->Name("W1_program_of_roles_events")
    ->Arg(64)
    ->Arg(1024)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(messages_as_ops, evaluate, ring_of_roles, evaluate)
    ->Name("W1_program_of_roles")
    ->Arg(64)
    ->Arg(1024)
    ->Unit(benchmark::kMillisecond);

/// W1 as Tandem runs it: the collective is one op.
void ring_op(benchmark::State& state) {
  const auto ranks = static_cast<int32_t>(state.range(0));
  Trace trace;
  for (auto _ : state) {
    trace =
        run_events(single_collective({{"data", ranks}}, ring_transfer(ranks, kRingBytes)), {.iterations = 1});
  }
  report(state, trace);
}
BENCHMARK(ring_op)->Name("W1_op")->Arg(8)->Arg(1024)->Arg(4096)->Arg(16384)->Arg(100000)->Unit(
    benchmark::kMillisecond);

/// W3: reduce-scatter along each axis and all-gather back, as one op.
void torus_op(benchmark::State& state) {
  const int32_t x = static_cast<int32_t>(state.range(0)), y = static_cast<int32_t>(state.range(1)),
                z = static_cast<int32_t>(state.range(2));
  Transfer t;
  t.bytes = kRingBytes;
  double share = 1, seconds = 0;
  for (const int32_t n : {x, y, z}) {
    t.latency += Time{kRingLatency} * (2 * (n - 1));
    seconds += 2.0 * (n - 1) / n * share * kRingBytes / kRingBandwidth;
    share /= n;
  }
  t.cap = kRingBytes / seconds;
  Trace trace;
  for (auto _ : state)
    trace = run_events(single_collective({{"x", x}, {"y", y}, {"z", z}}, t), {.iterations = 1});
  report(state, trace);
}
BENCHMARK(torus_op)
    ->Name("W3_op")
    ->Args({8, 8, 8})
    ->Args({16, 16, 16})
    ->Args({32, 32, 16})
    ->Args({32, 32, 32})
    ->Unit(benchmark::kMillisecond);

using Run = Trace (*)(const BoundProgram&, const EvaluateOptions&);

/// W2 (skew 0), W2j (97), W2k (997). Making the plan is timed too.
void resnet50(benchmark::State& state, Run run) {
  Trace trace;
  for (auto _ : state) {
    trace =
        run(resnet50_iteration(static_cast<int32_t>(state.range(0)), static_cast<uint32_t>(state.range(1))),
            {.iterations = 1});
  }
  report(state, trace);
}
BENCHMARK_CAPTURE(resnet50, events, run_events)
    ->ArgsProduct({{8, 64, 512, 1024}, {0, 97, 997}})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(resnet50, sweep, run_sweep)
    ->ArgsProduct({{8, 64, 512, 1024, 100000}, {0, 97, 997}})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(resnet50, evaluate, evaluate)
    ->Args({1024, 0})
    ->Args({100000, 0})
    ->Unit(benchmark::kMillisecond);

/// Asynchronous parameter server with noise: workers, keys.
void async_server(benchmark::State& state) {
  ServerSetting s;
  s.workers = static_cast<int32_t>(state.range(0));
  s.keys = static_cast<int32_t>(state.range(1));
  s.compute = Time{1'000'000'000};
  s.apply = Time{100'000};
  s.message = {Time{5'000'000}, 1'000'000, 10e9, {}};
  BoundProgram plan = parameter_server(s);
  plan.disturbance.iteration_sigma = 0.1;
  const auto iterations = static_cast<int32_t>(state.range(2));
  Trace trace;
  for (auto _ : state) trace = run_events(plan, {.iterations = iterations});
  report(state, trace);
  state.counters["mean_staleness"] = trace.staleness.mean();
}
BENCHMARK(async_server)
    ->Args({1000, 1, 100})
    ->Args({1000, 20, 20})
    ->Args({100000, 20, 3})
    ->Unit(benchmark::kMillisecond);

/// Hold model: pop the least, push it back later. Second argument: 1 = few distinct times.
void hold(benchmark::State& state) {
  const auto pending = static_cast<uint64_t>(state.range(0));
  std::vector<int64_t> step(65536);
  SplitMix64 random(1);
  for (int64_t& s : step) {
    constexpr int64_t few[] = {1, 2, 3, 5};
    s = state.range(1) != 0 ? few[random.next() % 4] * 1'000'000
                            : static_cast<int64_t>(-std::log(1 - to_unit(random.next())) * 1e6);
  }
  MonotoneQueue queue;
  for (uint64_t i = 0; i < pending; ++i) queue.push(step[i & 65535], i);
  std::vector<MonotoneQueue::Item> batch;
  int64_t held = 0;
  std::size_t at = 0;
  for (auto _ : state) {
    queue.pop_batch(batch);
    for (const auto& item : batch) queue.push(item.time + step[at++ & 65535], item.data);
    held += static_cast<int64_t>(batch.size());
  }
  state.counters["holds/s"] = benchmark::Counter(static_cast<double>(held), benchmark::Counter::kIsRate);
}
BENCHMARK(hold)->ArgsProduct({{1000, 100000, 10000000}, {0, 1}});

}  // namespace
}  // namespace tandem::tests
