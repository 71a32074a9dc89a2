// SPDX-License-Identifier: Apache-2.0
// Attention in 2 bytes by cuDNN's fused kernels (Dao et al. 2022). Where it has none that depends on no
// timing, our own compute.
#include <fmt/format.h>

#include <cstdint>
#include <limits>

#include "exec/device/cuda/choices.h"
#include "exec/device/cuda/cudnn_plan.h"
#include "exec/device/cuda/fused_attention.h"
#include "exec/device/cuda/shared_keys.h"
#include "exec/device/cuda/trial.h"

namespace tandem::exec::cuda {

namespace {

/// In host memory, which by-value tensors are read from.
struct Values {
  float scale, lowest = std::numeric_limits<float>::lowest(), one = 1;
};

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

/// Runs the plan once on separate memory: to see whether it runs, and so that nothing is left to load at its
/// first launch. Yes where there is no room for that.
bool works(const BoundProgram& plan, const AttentionShape& a, bool backward, Libraries libraries) {
  try {
    const TrialMemory queries(static_cast<std::size_t>(2 * a.batch * a.q_rows * a.q_row)),
        keys(static_cast<std::size_t>(2 * a.batch * a.kv_rows * a.kv_row)),
        outputs(static_cast<std::size_t>(2 * a.batch * a.out_rows * a.out_row()));
    const auto sums = TrialMemory::floats(a.batch * a.heads * a.out_rows),
               scratch = TrialMemory::floats(a.batch * a.heads * a.query);
    const TrialMemory workspace(static_cast<std::size_t>(plan.workspace), false);
    libraries.workspace = workspace.get();
    // {out, q, k, v, log sums}, or {dq, dk, dv, q, k, v, out, dout, log sums}; results over what they are of.
    float *const q = queries.at(), *const kv = keys.at(), *const out = outputs.at(), *const log = sums.at();
    float* const forward_operands[] = {out, q, kv, kv, log};
    float* const backward_operands[] = {q, kv, kv, q, kv, kv, out, out, log};
    const cudaStream_t stream = stream_of(libraries);
    const Launch l{backward ? backward_operands : forward_operands, nullptr, scratch.at(), stream};
    Values values{a.scale};
    return runs(
        [&] {
          return run_plan(plan, libraries, tensors_from(a, backward, 0, values, l)) == CUDNN_STATUS_SUCCESS;
        },
        stream);
  } catch (const NoRoom&) {
    return true;
  }
}

/// A plan for that many samples at a time, which divide the batch.
struct Sliced {
  BoundProgram plan;
  int64_t samples = 0;
};

/// Of a call on all of its batch.
PlanCache::Made make_whole(const Call& call, const std::vector<int64_t>& key, cudnnDataType_t stored,
                           Libraries& libraries, bool& too_large) {
  Choices& choices = Choices::of_process();
  Refusals refusals;
  try {
    const Descriptor graph = attention_graph(call, stored, libraries.cudnn);
    const std::optional<Origin> known = origin_of(choices.find(chip_of(libraries), key));
    std::vector<BoundProgram> found;
    if (known) found = candidates(graph, known, 1, libraries, refusals);
    if (found.empty()) found = candidates(graph, std::nullopt, 1, libraries, refusals = {});
    if (!found.empty()) {
      const bool backward = call.function == Function::attention_backward;
      if (!works(found.front(), AttentionShape(call), backward, libraries))
        return {std::nullopt, fmt::format("engine {} fails when it is run", found.front().engine)};
      choices.keep(chip_of(libraries), key, way_of(found.front().origin));
      return {found.front(), ""};
    }
  } catch (const Refused& refused) {
    refusals.status = refused.status;
  }
  too_large = refusals.too_large > 0;
  return {std::nullopt, refusals.text()};
}

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
    bool smaller = true;  // may do where this does not
    auto at = made.find(key);
    if (at == made.end())
      at = made.emplace(key, make_whole(part, key, stored, libraries, smaller = false)).first;
    if (at->second.plan) return Sliced{*at->second.plan, samples};
    why = why.empty() ? at->second.why : why;
    if (!smaller) break;  // fewer samples change nothing
  }
  return std::nullopt;
}

}  // namespace

Prepared library_attention(const Call& call, Libraries& libraries) {
  if (!is_half(libraries.precision)) return attention_of_floats(call, libraries);
  if (!fuses(call, libraries.precision)) {
    note_choice(libraries, call, "cuDNN", "", 0, "its fused kernels do not do this shape");
    return prepare_own(call, libraries.precision);
  }
  const bool backward = call.function == Function::attention_backward, shared = backward && shares_keys(call);
  const Call asked = shared ? with_own_keys(call) : call;
  std::string why;
  const std::optional<Sliced> made = plan_for(asked, libraries, why);
  note_choice(libraries, call, "cuDNN", made ? fmt::format("engine {}", made->plan.engine) : "",
              made ? made->plan.workspace : 0, made ? "" : why);
  if (!made) return prepare_own(call, libraries.precision);
  grow_workspace(libraries, static_cast<std::size_t>(made->plan.workspace));
  const AttentionShape a(asked);
  const auto values = std::make_shared<Values>(Values{a.scale});
  const Prepared fused{[=, plan = made->plan, samples = made->samples, &libraries](const Launch& l) {
                         for (int64_t b = 0; b < a.batch; b += samples)
                           check(run_plan(plan, libraries, tensors_from(a, backward, b, *values, l)),
                                 "compute attention");
                       },
                       backward ? made->samples * a.heads * a.query : 0};
  return shared ? by_own_keys(call, asked, fused, libraries.precision) : fused;
}

}  // namespace tandem::exec::cuda
