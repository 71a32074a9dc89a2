// SPDX-License-Identifier: Apache-2.0
// Without a GPU cuDNN can be asked what it would do on one: whether it knows our attention graphs as those
// that it has fused kernels for.
#include <gtest/gtest.h>

#include "exec/device/cuda/shared_keys.h"
#include "tests/exec/cudnn_devices.h"

namespace tandem::tests {
namespace {

/// Would cuDNN run the first of its proposals for the graph on that device, had it a driver?
bool usable(const Call& call, cudnnBackendDescriptor_t device) {
  try {
    const cuda::Descriptor graph = cuda::attention_graph(call, CUDNN_DATA_BFLOAT16, nullptr);
    cuda::Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR),
        plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, &mode);
    heuristic.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, &device);
    heuristic.finish();
    cuda::Descriptor configuration(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    cudnnBackendDescriptor_t raw = configuration.get();
    int64_t count = 0;
    cuda::require(cudnnBackendGetAttribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                           CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &raw));
    if (count < 1) return false;
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, &device);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
    const cudnnStatus_t status = cudnnBackendFinalize(plan.get());
    return status == CUDNN_STATUS_SUCCESS || status == CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER;
  } catch (const cuda::Refused&) {
    return false;
  }
}

Call attention(Function function, bool causal, int64_t size, int64_t kv_heads) {
  constexpr int64_t kHeads = 12, kTime = 1024;
  const int64_t row = (kHeads + 2 * kv_heads) * size;
  Call call;
  call.function = function;
  call.shape = {8,     kHeads, kv_heads,       kTime,
                kTime, size,   causal ? 1 : 0, row,
                row,   0,      kHeads * size,  (kHeads + kv_heads) * size};
  return call;
}

TEST(CudnnAttention, CudnnKnowsTheGraphs) {
  if (!has_driver()) GTEST_SKIP() << "neither a driver nor the toolkit's library to link with";
  for (const Chip& of : kChips) {
    const cudnnBackendDescriptor_t chip = device(of);
    if (chip == nullptr) GTEST_SKIP() << "this cuDNN is not told of devices in this way";
    for (const bool causal : {false, true}) {
      for (const Function f : {Function::attention, Function::attention_backward})
        EXPECT_TRUE(usable(attention(f, causal, 64, 12), chip))
            << name(f) << " compute " << of.compute << " causal " << causal;
    }
    EXPECT_TRUE(usable(attention(Function::attention, true, 64, 4), chip)) << "keys shared by three heads";
    EXPECT_FALSE(usable(attention(Function::attention_backward, true, 64, 4), chip))
        << "which is why it is asked for with copies: their gradients would have to be summed";
    EXPECT_TRUE(usable(cuda::with_own_keys(attention(Function::attention_backward, true, 64, 4)), chip));
    cudnnBackendDestroyDescriptor(chip);
  }
}

}  // namespace
}  // namespace tandem::tests
