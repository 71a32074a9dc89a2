// SPDX-License-Identifier: Apache-2.0
// Narayanan et al. 2019 (PipeDream) with a flush at the end of the step (2021, Megatron-LM, section 2.2.1):
// one forward, one backward alternately, after as many forward passes as there are later stages. GPipe's
// bubble; stage s of p holds at most p - s micro-batches.
#include <algorithm>

#include "schemes/schedules/pipeline_schedule.h"

namespace tandem::schemes {

namespace {

std::vector<Slot> slots_of_one_f_one_b(int32_t stage, const PipelineShape& shape) {
  const int32_t count = shape.micro_batches, ahead = std::min(count, shape.stages - stage - 1);
  std::vector<Slot> out;
  for (int32_t m = 0; m < ahead; ++m) out.push_back({Slot::What::forward, m, 0});
  for (int32_t m = 0; m < count; ++m) {
    if (m + ahead < count) out.push_back({Slot::What::forward, m + ahead, 0});
    out.push_back({Slot::What::backward, m, 0});
  }
  return out;
}

}  // namespace

void register_one_f_one_b(Registry<PipelineSchedule>& registry) {
  registry.add({.name = "1f1b",
                .summary = "one forward and one backward pass alternate: few micro-batches are held",
                .source = "Narayanan et al. 2019, PipeDream; 2021, Megatron-LM, section 2.2.1",
                .refusal = nullptr,
                .slots = slots_of_one_f_one_b,
                .waits = true});
}

}  // namespace tandem::schemes
