// SPDX-License-Identifier: Apache-2.0
// Qi et al. 2024 (Pipeline Parallelism with Controllable Memory), ZB-V, in the order of PyTorch's
// ScheduleZBVZeroBubble: two chunks a stage, which lie in a V, so that the first stage has the model's two
// ends. The gradients of inputs are made first and those of weights after them; no idle time but the
// beginning's where all three passes take equally long. A stage holds 2p chunks at most, as 1F1B's first.
#include <algorithm>
#include <array>

#include "schemes/schedules/pipeline_schedule.h"

namespace tandem::schemes {

namespace {

std::string refusal_of_zbv(const PipelineShape& shape) {
  return shape.chunks == 2 ? "" : "every stage is two chunks, which lie in a V";
}

/// Passes over the two chunks of a stage, each kind in the order of micro-batches.
class ZbvWriter {
 public:
  explicit ZbvWriter(int32_t micro_batches) : count_(micro_batches) {}
  void forward(int32_t chunk) { add(Slot::What::forward, chunk, forwards_); }
  void data(int32_t chunk) { add(Slot::What::data, chunk, datas_); }
  void weights(int32_t chunk) { add(Slot::What::weights, chunk, weights_); }
  void both(int32_t chunk) { data(chunk), weights(chunk); }
  int32_t forwards(int32_t chunk) const { return forwards_[static_cast<std::size_t>(chunk)]; }
  bool owes_weights(int32_t chunk) const {
    const auto c = static_cast<std::size_t>(chunk);
    return weights_[c] < datas_[c];
  }
  std::vector<Slot> slots;

 private:
  /// Micro-batches that there are not leave their turn empty.
  void add(Slot::What what, int32_t chunk, std::array<int32_t, 2>& next) {
    const int32_t micro = next[static_cast<std::size_t>(chunk)]++;
    if (micro < count_) slots.push_back({what, micro, chunk});
  }
  int32_t count_;
  std::array<int32_t, 2> forwards_{}, datas_{}, weights_{};
};

std::vector<Slot> slots_of_zbv(int32_t stage, const PipelineShape& shape) {
  const int32_t p = shape.stages, turns = std::max(2 * p - 1, shape.micro_batches);
  ZbvWriter w(shape.micro_batches);
  for (int32_t k = 0; k < 2 * (p - stage) - 1; ++k) w.forward(0);
  for (int32_t k = 0; k < stage; ++k) w.forward(1), w.forward(0);
  for (int32_t k = 0; k < p - stage; ++k) w.forward(1), w.both(1);
  while (w.forwards(1) < w.forwards(0) || w.forwards(0) < turns) {
    if (w.forwards(0) < turns) w.forward(0);
    w.both(0), w.forward(1), w.both(1);
  }
  for (int32_t k = 0; k < stage; ++k) w.data(0), w.data(1);
  for (int32_t k = 0; k < p - stage; ++k) w.data(0), w.weights(0);
  for (const int32_t chunk : {1, 0}) {
    while (w.owes_weights(chunk)) w.weights(chunk);
  }
  return w.slots;
}

}  // namespace

void register_zbv(Registry<PipelineSchedule>& registry) {
  registry.add({.name = "zbv",
                .summary = "two chunks a stage in a V, gradients of weights put off: no bubble in the middle",
                .source = "Qi et al. 2024, Pipeline Parallelism with Controllable Memory, ZB-V",
                .refusal = refusal_of_zbv,
                .slots = slots_of_zbv,
                .v = true});
}

}  // namespace tandem::schemes
