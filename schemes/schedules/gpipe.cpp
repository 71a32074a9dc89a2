// SPDX-License-Identifier: Apache-2.0
// Huang et al. 2019: all forward passes, then all backward passes. Bubble (p-1)/(m+p-1); every stage holds
// all m micro-batches.
#include "schemes/schedules/pipeline_schedule.h"

namespace tandem::schemes {

namespace {

std::vector<Slot> slots_of_gpipe(int32_t, const PipelineShape& shape) {
  std::vector<Slot> out;
  for (const Slot::What what : {Slot::What::forward, Slot::What::backward}) {
    for (int32_t m = 0; m < shape.micro_batches; ++m) out.push_back({what, m, 0});
  }
  return out;
}

}  // namespace

void register_gpipe(Registry<PipelineSchedule>& registry) {
  registry.add({.name = "gpipe",
                .summary = "all forward passes, then all backward passes",
                .source = "Huang et al. 2019, GPipe",
                .refusal = nullptr,
                .slots = slots_of_gpipe});
}

}  // namespace tandem::schemes
