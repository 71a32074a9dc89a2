// SPDX-License-Identifier: Apache-2.0
// Narayanan et al. 2021 (Megatron-LM, section 2.2.2): every stage holds v chunks of the model, and
// micro-batches go through them p at a time. Bubble (p-1)/(vm+p-1), v times as many messages; stage 0 holds
// vp + p - 1 chunks (Korthikanti et al. 2022, appendix B: 1 + (p-1)/(vp) times 1F1B's).
#include <fmt/format.h>

#include <algorithm>

#include "schemes/pipeline_schedule.h"

namespace tandem::schemes {

namespace {

std::string refusal_of_interleaved(const PipelineShape& shape) {
  if (shape.chunks < 2) return "needs 2 chunks a stage at least; with one it is \"1f1b\"";
  if (shape.micro_batches % shape.stages == 0) return "";
  return fmt::format("{} micro-batches are no multiple of {} stages", shape.micro_batches, shape.stages);
}

/// The k-th turn of a direction: p micro-batches through the first chunk, the same through the next.
Slot turn(Slot::What what, int32_t k, const PipelineShape& shape) {
  const int32_t round = shape.stages * shape.chunks, chunk = k % round / shape.stages;
  return {what, k / round * shape.stages + k % shape.stages,
          what == Slot::What::forward ? chunk : shape.chunks - 1 - chunk};
}

std::vector<Slot> slots_of_interleaved(int32_t stage, const PipelineShape& shape) {
  const int32_t count = shape.micro_batches * shape.chunks;
  const int32_t ahead = std::min(count, 2 * (shape.stages - stage - 1) + (shape.chunks - 1) * shape.stages);
  std::vector<Slot> out;
  for (int32_t k = 0; k < ahead; ++k) out.push_back(turn(Slot::What::forward, k, shape));
  for (int32_t k = 0; k < count; ++k) {
    if (k + ahead < count) out.push_back(turn(Slot::What::forward, k + ahead, shape));
    out.push_back(turn(Slot::What::backward, k, shape));
  }
  return out;
}

}  // namespace

void register_interleaved(Registry<PipelineSchedule>& registry) {
  registry.add({.name = "interleaved",
                .summary = "1f1b over several chunks of the model a stage: a smaller bubble, more messages",
                .source = "Narayanan et al. 2021, Megatron-LM, section 2.2.2",
                .refusal = refusal_of_interleaved,
                .slots = slots_of_interleaved});
}

}  // namespace tandem::schemes
