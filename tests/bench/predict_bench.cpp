// SPDX-License-Identifier: Apache-2.0
// What a user waits for: one prediction, from loaded files to the report.
#include <benchmark/benchmark.h>

#include <string>

#include "models/graph.h"
#include "models/optimizer.h"
#include "sim/simulate.h"

namespace tandem::tests {
namespace {

struct Asked {
  const char *model, *system, *nodes, *scheme;
  int64_t devices, batch;
  Precision precision;
};

void prediction(benchmark::State& state, const Asked& asked) {
  const Graph graph = Graph::load(asked.model);
  const System system = System::load(asked.system, {{"nodes", asked.nodes}});
  const ResolvedScheme scheme = resolve_scheme(asked.scheme, {});
  Request p;
  p.job.graph = &graph;
  p.system = &system;
  p.job.scheme = &scheme;
  p.devices = asked.devices;
  p.job.batch = asked.batch;
  p.job.precision = asked.precision;
  p.job.optimizer = &optimizer("adam");
  p.job.input = false;
  p.check_memory = false;
  double rate = 0;
  for (auto _ : state) rate = simulate(p).rate.samples_per_second;
  state.counters["samples/s"] = rate;  // of the training, to see that it is the same question
}

#define TANDEM_ASK(name, ...) \
  BENCHMARK_CAPTURE(prediction, name, Asked{__VA_ARGS__})->Unit(benchmark::kMillisecond)
TANDEM_ASK(ddp_8, "vgg16", "dgx1-v100", "1", "pytorch-ddp", 8, 32, Precision::fp16);
TANDEM_ASK(ddp_256, "resnet50", "h100-superpod", "32", "pytorch-ddp", 256, 128, Precision::bf16);
TANDEM_ASK(async_8, "vgg16", "dgx1-v100", "1", "parameter-server:mode=async", 8, 32, Precision::fp32);
TANDEM_ASK(async_64, "resnet50", "dgx1-v100", "8", "parameter-server:mode=async", 64, 32, Precision::fp32);
TANDEM_ASK(fsdp_128, "llama2-7b", "dgx-a100", "16", "pytorch-fsdp", 128, 1, Precision::bf16);
TANDEM_ASK(megatron_128, "gpt3-175b", "dgx-a100-80gb", "16", "megatron:tensor=8,pipeline=16,microbatches=64",
           128, 1, Precision::bf16);
#undef TANDEM_ASK

}  // namespace
}  // namespace tandem::tests
