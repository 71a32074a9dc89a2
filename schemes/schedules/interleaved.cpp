// SPDX-License-Identifier: Apache-2.0
// Narayanan et al. 2021 (Megatron-LM, section 2.2.2): every stage holds v chunks of the model, and
// micro-batches go through them p at a time. Bubble (p-1)/(vm+p-1), v times as many messages; stage 0 holds
// vp + p - 1 chunks (Korthikanti et al. 2022, appendix B: 1 + (p-1)/(vp) times 1F1B's). Numbers that stages
// do not divide go in longer rounds, as PyTorch has it; Megatron-Core refuses them.
#include <fmt/format.h>

#include <algorithm>

#include "schemes/schedules/pipeline_schedule.h"

namespace tandem::schemes {

namespace {

/// In which micro-batches go through the chunks: as many together as there are stages, or some more where
/// these do not divide them (PyTorch's ScheduleInterleaved1F1B).
int32_t rounds_of(const PipelineShape& shape) { return std::max(1, shape.micro_batches / shape.stages); }

std::string refusal_of_interleaved(const PipelineShape& shape) {
  if (shape.chunks < 2) return "needs 2 chunks a stage at least; with one it is \"1f1b\"";
  const int32_t rounds = rounds_of(shape);
  if (shape.micro_batches % rounds == 0) return "";
  return fmt::format("{} micro-batches of {} stages go through in {} rounds, which do not divide them",
                     shape.micro_batches, shape.stages, rounds);
}

/// The k-th turn of a direction: a round's micro-batches through the first chunk, the same through the next.
Slot turn(Slot::What what, int32_t k, const PipelineShape& shape) {
  const int32_t together = shape.micro_batches / rounds_of(shape), round = together * shape.chunks,
                chunk = k % round / together;
  return {what, k / round * together + k % together,
          what == Slot::What::forward ? chunk : shape.chunks - 1 - chunk};
}

std::vector<Slot> slots_of_interleaved(int32_t stage, const PipelineShape& shape) {
  const int32_t count = shape.micro_batches * shape.chunks;
  const int32_t together = shape.micro_batches / rounds_of(shape);
  const int32_t ahead = std::min(count, 2 * (shape.stages - stage - 1) + (shape.chunks - 1) * together);
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
