// SPDX-License-Identifier: Apache-2.0
// Attention by cuDNN's fused kernels (Dao et al. 2022). Where it has none that depends on no timing, our own
// compute.
#include <fmt/format.h>

#include <cstdint>
#include <limits>

#include "exec/device/cuda/cudnn_plan.h"
#include "exec/device/cuda/fused_attention.h"

namespace tandem::exec::cuda {

namespace {

/// A plan for so many samples at a time, which divide the batch.
struct Sliced {
  Plan plan;
  int64_t samples = 0;
};

/// The backward pass keeps the scores' gradients in its workspace: where those of the whole batch have no
/// room, those of a part of it.
std::optional<Sliced> plan_for(const Call& call, Libraries& libraries, std::string& why) {
  const cudnnDataType_t stored =
      libraries.precision == Precision::fp16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16;
  const int64_t batch = call.shape[0];
  for (int64_t samples = batch; samples > 0; samples = samples % 2 == 0 ? samples / 2 : 0) {
    Call part = call;
    part.shape[0] = samples;
    std::vector<int64_t> key = part.shape;
    key.insert(key.end(), {static_cast<int64_t>(call.function), static_cast<int64_t>(stored)});
    auto& made = plans_of(libraries).made;
    if (const auto at = made.find(key); at != made.end()) {
      if (at->second.plan) return Sliced{*at->second.plan, samples};
      why = why.empty() ? at->second.why : why;
      continue;
    }
    Refusals refusals;
    std::vector<Plan> found;
    try {
      found =
          candidates(attention_graph(part, stored, libraries.cudnn), std::nullopt, 1, libraries, refusals);
    } catch (const Refused& refused) {
      refusals.status = refused.status;
    }
    if (!found.empty()) {
      made[key] = {found.front(), ""};
      return Sliced{found.front(), samples};
    }
    made[key] = {std::nullopt, refusals.text()};
    why = why.empty() ? refusals.text() : why;
    if (refusals.too_large == 0) break;  // fewer samples change nothing
  }
  return std::nullopt;
}

/// In host memory, which by-value tensors are read from.
struct Values {
  float scale, lowest = std::numeric_limits<float>::lowest(), one = 1;
};

}  // namespace

namespace {

/// Names and places of the tensors of `samples` samples from the b-th on.
std::vector<std::pair<int64_t, void*>> tensors_from(const AttentionShape& a, bool backward, int64_t b,
                                                    Values& values, const Launch& l) {
  std::vector<std::pair<int64_t, void*>> out;
  const auto give = [&](AttentionTensor name, std::size_t operand, int64_t offset) {
    out.emplace_back(name, reinterpret_cast<uint16_t*>(l.operands[operand]) + offset);
  };
  const std::size_t first = backward ? 3 : 1;  // of q, k, v
  give(kQ, first, a.q(b, 0));
  give(kK, first + 1, a.k(b, 0));
  give(kV, first + 2, a.v(b, 0));
  give(kOut, backward ? 6 : 0, a.out(b, 0));
  out.emplace_back(kLogSums, l.operands[backward ? 8 : 4] + a.row(b, 0));
  out.emplace_back(kScale, &values.scale);
  if (a.causal) out.emplace_back(kLowest, &values.lowest);
  if (backward) {
    give(kDq, 0, a.q(b, 0));
    give(kDk, 1, a.k(b, 0));
    give(kDv, 2, a.v(b, 0));
    give(kDout, 7, a.out(b, 0));
    out.emplace_back(kInner, l.scratch);
    out.emplace_back(kOne, &values.one);
  }
  return out;
}

}  // namespace

Prepared library_attention(const Call& call, Libraries& libraries) {
  if (!fuses(call, libraries.precision)) {
    if (is_half(libraries.precision))
      note_choice(libraries, call, "cuDNN", "", 0, "its fused kernels do not do this shape");
    return prepare_own(call, libraries.precision);
  }
  std::string why;
  const std::optional<Sliced> made = plan_for(call, libraries, why);
  note_choice(libraries, call, "cuDNN", made ? fmt::format("engine {}", made->plan.engine) : "",
              made ? made->plan.workspace : 0, made ? "" : why);
  if (!made) return prepare_own(call, libraries.precision);
  grow_workspace(libraries, static_cast<std::size_t>(made->plan.workspace));
  const AttentionShape a(call);
  const bool backward = call.function == Function::attention_backward;
  const auto values = std::make_shared<Values>(Values{a.scale});
  return {[=, plan = made->plan, samples = made->samples, &libraries](const Launch& l) {
            for (int64_t b = 0; b < a.batch; b += samples)
              check(run_plan(plan, libraries, tensors_from(a, backward, b, *values, l)), "compute attention");
          },
          backward ? made->samples * a.heads * a.query : 0};
}

}  // namespace tandem::exec::cuda
