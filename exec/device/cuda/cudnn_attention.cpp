// SPDX-License-Identifier: Apache-2.0
// Attention by cuDNN's fused kernels (Dao et al. 2022). Where it has none that depends on no timing, our own
// compute.
#include <cstdint>
#include <limits>

#include "exec/device/cuda/cudnn_plan.h"
#include "exec/device/cuda/fused_attention.h"

namespace tandem::exec::cuda {

namespace {

std::optional<Plan> plan_for(const Call& call, const Libraries& libraries) {
  const cudnnDataType_t stored =
      libraries.precision == Precision::fp16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16;
  try {
    std::vector<Plan> plans =
        candidates(attention_graph(call, stored, libraries.cudnn), std::nullopt, 1, libraries);
    if (!plans.empty()) return std::move(plans.front());
  } catch (const Refused&) {
  }
  return std::nullopt;
}

/// In host memory, which by-value tensors are read from.
struct Values {
  float scale, lowest = std::numeric_limits<float>::lowest(), one = 1;
};

}  // namespace

Prepared library_attention(const Call& call, Libraries& libraries) {
  const std::optional<Plan> plan =
      fuses(call, libraries.precision) ? plan_for(call, libraries) : std::nullopt;
  if (!plan) return prepare_own(call, libraries.precision);
  const AttentionShape a(call);
  const bool backward = call.function == Function::attention_backward;
  const auto values = std::make_shared<Values>(Values{a.scale});
  return {[=, plan = *plan, &libraries](const Launch& l) {
            std::vector<std::pair<int64_t, void*>> tensors;
            const auto give = [&](AttentionTensor name, std::size_t operand, int64_t offset) {
              tensors.emplace_back(name, reinterpret_cast<uint16_t*>(l.operands[operand]) + offset);
            };
            const std::size_t first = backward ? 3 : 1;  // of q, k, v
            give(kQ, first, a.q_offset);
            give(kK, first + 1, a.k_offset);
            give(kV, first + 2, a.v_offset);
            give(kOut, backward ? 6 : 0, 0);
            give(kLogSums, backward ? 8 : 4, 0);
            tensors.emplace_back(kScale, &values->scale);
            if (a.causal) tensors.emplace_back(kLowest, &values->lowest);
            if (backward) {
              give(kDq, 0, a.q_offset);
              give(kDk, 1, a.k_offset);
              give(kDv, 2, a.v_offset);
              give(kDout, 7, 0);
              tensors.emplace_back(kInner, l.scratch);
              tensors.emplace_back(kOne, &values->one);
            }
            check(run_plan(plan, libraries, tensors), "compute attention");
          },
          backward ? a.batch * a.heads * a.query : 0};
}

}  // namespace tandem::exec::cuda
