// SPDX-License-Identifier: Apache-2.0
// DeepSeek's DualPipe (DeepSeek-V3, section 3.2.1) cut in half, in the order of PyTorch's ScheduleDualPipeV:
// two chunks a stage in a V; in the middle passes go in pairs, a backward and a forward one, which
// frameworks run under each other. Where nothing waits for weights' gradients early they are put off.
#include <fmt/format.h>

#include <array>
#include <deque>

#include "schemes/schedules/pipeline_schedule.h"

namespace tandem::schemes {

namespace {

std::string refusal_of_dualpipev(const PipelineShape& shape) {
  if (shape.chunks != 2) return "every stage is two chunks, which lie in a V";
  if (shape.micro_batches >= 2 * shape.stages) return "";
  return fmt::format("{} micro-batches are fewer than the {} parts of the model", shape.micro_batches,
                     2 * shape.stages);
}

class DualPipeWriter {
 public:
  void forward(int32_t chunk) { slots.push_back({Slot::What::forward, next(forwards_, chunk), chunk}); }
  /// The weights' gradients at once, or when weights() is called.
  void backward(int32_t chunk, bool later = false) {
    const int32_t micro = next(backwards_, chunk);
    slots.push_back({later ? Slot::What::data : Slot::What::backward, micro, chunk});
    if (later) owed_.push_back({Slot::What::weights, micro, chunk});
  }
  /// A forward pass that frameworks run under a backward pass, or the other way: what the latter lets go of
  /// makes room for the former.
  void pair(int32_t forwards, int32_t backwards) { backward(backwards), forward(forwards); }
  void weights() {
    if (owed_.empty()) return;
    slots.push_back(owed_.front());
    owed_.pop_front();
  }
  std::vector<Slot> slots;

 private:
  static int32_t next(std::array<int32_t, 2>& of, int32_t chunk) {
    return of[static_cast<std::size_t>(chunk)]++;
  }
  std::array<int32_t, 2> forwards_{}, backwards_{};
  std::deque<Slot> owed_;
};

std::vector<Slot> slots_of_dualpipev(int32_t stage, const PipelineShape& shape) {
  const int32_t behind = shape.stages - stage - 1;
  DualPipeWriter w;
  for (int32_t k = 0; k < 2 * behind; ++k) w.forward(0);
  for (int32_t k = 0; k <= stage; ++k) w.forward(0), w.forward(1);
  for (int32_t k = 0; k < behind; ++k) w.backward(1, true), w.weights(), w.forward(1);
  for (int32_t k = 0; k < shape.micro_batches - 2 * shape.stages + stage + 1; ++k) {
    if (k == 0 && behind == 0)
      w.forward(0), w.backward(1);
    else
      w.pair(0, 1);
    w.pair(1, 0);
  }
  for (int32_t k = 0; k < behind; ++k) w.backward(1), w.pair(1, 0);
  bool later = false;
  for (int32_t k = 0; k <= stage; ++k) {
    const bool half = k == (stage + 1) / 2;
    later = later || (half && stage % 2 == 1);
    w.backward(1, later);
    later = later || (half && stage % 2 == 0);
    w.backward(0, later);
  }
  for (int32_t k = 0; k < behind; ++k) w.weights(), w.backward(0, later);
  for (int32_t k = 0; k <= stage; ++k) w.weights();
  return w.slots;
}

}  // namespace

void register_dualpipev(Registry<PipelineSchedule>& registry) {
  registry.add({.name = "dualpipev",
                .summary = "two chunks a stage in a V, forward and backward passes alternate",
                .source = "DeepSeek-AI 2024, DeepSeek-V3, section 3.2.1; PyTorch's ScheduleDualPipeV",
                .refusal = refusal_of_dualpipev,
                .slots = slots_of_dualpipev,
                .v = true});
}

}  // namespace tandem::schemes
