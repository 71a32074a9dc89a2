// SPDX-License-Identifier: Apache-2.0
// What the cost model takes to price a kernel: less than a microsecond, so that a prediction asks it freely.
#include <benchmark/benchmark.h>

#include "models/graph.h"
#include "sim/cost/kernel_cost.h"

namespace tandem::tests {
namespace {

void kernels_of_a_step(benchmark::State& state, const char* model, Precision precision) {
  const KernelCost cost(Device::load("v100-sxm2-16gb"), precision, "stock");
  std::vector<Kernel> kernels;
  for (const Lowered& layer : Graph::load(model).lower(8, precision)) {
    for (const auto* pass : {&layer.forward, &layer.backward_data, &layer.backward_weights})
      kernels.insert(kernels.end(), pass->begin(), pass->end());
  }
  double sum = 0;
  for (auto _ : state) {
    for (const Kernel& k : kernels) sum += cost.seconds(k);
  }
  benchmark::DoNotOptimize(sum);
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(kernels.size()));
}
BENCHMARK_CAPTURE(kernels_of_a_step, resnet50_fp32, "resnet50", Precision::fp32);
BENCHMARK_CAPTURE(kernels_of_a_step, bert_fp16, "bert-base", Precision::fp16);

}  // namespace
}  // namespace tandem::tests
