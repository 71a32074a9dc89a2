// SPDX-License-Identifier: Apache-2.0
#include "schemes/schedules/pipeline_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace tandem::schemes {

namespace {

constexpr int64_t kOpen = -1;

/// When every pass ended over the chunks of the whole model, in their order; kOpen before that.
class Ends {
 public:
  explicit Ends(const PipelineShape& shape)
      : shape_(shape),
        forward_(static_cast<std::size_t>(shape.stages) * static_cast<std::size_t>(shape.chunks) *
                     static_cast<std::size_t>(shape.micro_batches),
                 kOpen),
        data_(forward_) {}

  /// What `slot` of the stage waits for: the end of it, 0 if nothing, kOpen if that has not ended.
  int64_t ready(const Slot& slot, int32_t stage) const {
    const int64_t at = part(slot, stage), last = int64_t{shape_.stages} * shape_.chunks - 1;
    switch (slot.what) {
      case Slot::What::forward:
        return at == 0 ? 0 : forward_[index(slot, at - 1)];
      case Slot::What::backward:
      case Slot::What::data:
        return at == last ? forward_[index(slot, at)] : data_[index(slot, at + 1)];
      case Slot::What::weights:
        return data_[index(slot, at)];
    }
    return kOpen;
  }
  void done(const Slot& slot, int32_t stage, int64_t end) {
    if (slot.what == Slot::What::weights) return;
    (slot.what == Slot::What::forward ? forward_ : data_)[index(slot, part(slot, stage))] = end;
  }

 private:
  int64_t part(const Slot& slot, int32_t stage) const { return shape_.part(stage, slot.chunk); }
  std::size_t index(const Slot& slot, int64_t part) const {
    return static_cast<std::size_t>(part * shape_.micro_batches + slot.micro_batch);
  }
  const PipelineShape shape_;
  std::vector<int64_t> forward_, data_;
};

int64_t length(Slot::What what, const SlotTimes& times) {
  switch (what) {
    case Slot::What::forward:
      return times.forward;
    case Slot::What::backward:
      return times.data + times.weights;
    case Slot::What::data:
      return times.data;
    case Slot::What::weights:
      return times.weights;
  }
  return 0;
}

/// Most chunks begun and not yet let go of. A pass of `data` alone leaves its chunk's activations in use.
int32_t most_held(const std::vector<TimedSlot>& stage) {
  int32_t held = 0, most = 0;
  for (const TimedSlot& t : stage) {
    if (t.slot.what == Slot::What::forward) most = std::max(most, ++held);
    if (t.slot.what == Slot::What::backward || t.slot.what == Slot::What::weights) --held;
  }
  return most;
}

}  // namespace

std::string_view name(Slot::What what) {
  constexpr std::string_view names[] = {"forward", "backward", "data", "weights"};
  return names[static_cast<std::size_t>(what)];
}

PipelineShape shape_for(const PipelineSchedule& schedule, int32_t stages, int32_t micro_batches,
                        int32_t chunks) {
  PipelineShape shape{stages, micro_batches, std::max(chunks, 1), schedule.v};
  if (chunks == 0 && schedule.refusal != nullptr && !schedule.refusal(shape).empty()) shape.chunks = 2;
  return shape;
}

void check_shape(const PipelineSchedule& schedule, const PipelineShape& shape) {
  std::string why;
  if (schedule.refusal != nullptr) {
    why = schedule.refusal(shape);
  } else if (shape.chunks != 1) {
    why = "every stage is one chunk; \"interleaved\" has several";
  }
  if (!why.empty()) throw InputError(fmt::format("schedule \"{}\": {}", schedule.name, why));
}

PipelineRun run_pipeline(const PipelineSchedule& schedule, const PipelineShape& shape,
                         const SlotTimes& times) {
  check_shape(schedule, shape);
  const auto stages = static_cast<std::size_t>(shape.stages);
  std::vector<std::vector<Slot>> todo;
  std::size_t left = 0;
  for (int32_t s = 0; s < shape.stages; ++s) left += todo.emplace_back(schedule.slots(s, shape)).size();
  PipelineRun out;
  out.stages.resize(stages);
  Ends ends(shape);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t s = 0; s < stages; ++s) {
      auto& done = out.stages[s];
      for (; done.size() < todo[s].size(); --left, moved = true) {
        const Slot& slot = todo[s][done.size()];
        const int64_t ready = ends.ready(slot, static_cast<int32_t>(s));
        if (ready == kOpen) break;
        const int64_t begin = std::max(ready, done.empty() ? 0 : done.back().end);
        done.push_back({slot, begin, begin + length(slot.what, times)});
        ends.done(slot, static_cast<int32_t>(s), done.back().end);
        out.length = std::max(out.length, done.back().end);
      }
    }
  }
  if (left > 0) throw std::logic_error(fmt::format("schedule \"{}\" ends in a deadlock", schedule.name));
  const int64_t busy = (times.forward + times.data + times.weights) * shape.micro_batches * shape.chunks;
  out.bubble = out.length > 0 ? 1 - static_cast<double>(busy) / static_cast<double>(out.length) : 0;
  for (const auto& stage : out.stages) out.held.push_back(most_held(stage));
  return out;
}

}  // namespace tandem::schemes
