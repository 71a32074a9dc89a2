// SPDX-License-Identifier: Apache-2.0
// Qi et al. 2023 (Zero Bubble Pipeline Parallelism), ZB-H1: 1F1B whose backward pass is cut in two. The stage
// before waits for the gradients of inputs alone; those of weights fill the gaps, s turns later on stage s,
// so that no stage holds more than the first of 1F1B does. From m = p on a third of 1F1B's idle time where
// all three passes take equally long: (p-1)(F + B - W).
#include <algorithm>

#include "schemes/schedules/pipeline_schedule.h"

namespace tandem::schemes {

namespace {

std::vector<Slot> slots_of_zero_bubble(int32_t stage, const PipelineShape& shape) {
  const int32_t count = shape.micro_batches, ahead = std::min(count, shape.stages - stage - 1);
  std::vector<Slot> out;
  for (int32_t m = 0; m < ahead; ++m) out.push_back({Slot::What::forward, m, 0});
  for (int32_t m = 0; m < count; ++m) {
    if (m + ahead < count) out.push_back({Slot::What::forward, m + ahead, 0});
    out.push_back({Slot::What::data, m, 0});
    if (m >= stage) out.push_back({Slot::What::weights, m - stage, 0});
  }
  for (int32_t m = std::max(0, count - stage); m < count; ++m) out.push_back({Slot::What::weights, m, 0});
  return out;
}

}  // namespace

void register_zero_bubble(Registry<PipelineSchedule>& registry) {
  registry.add({.name = "zero-bubble",
                .summary = "1f1b with the gradients of weights put off into the gaps (ZB-H1)",
                .source = "Qi et al. 2023, Zero Bubble Pipeline Parallelism, section 2.2",
                .refusal = nullptr,
                .slots = slots_of_zero_bubble});
}

}  // namespace tandem::schemes
