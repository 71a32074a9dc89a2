// SPDX-License-Identifier: Apache-2.0
#pragma once
// In which order the stages of a pipeline work on micro-batches. A schedule is a component: one file in
// schemes/schedules and one word in schemes/CMakeLists.txt.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/registry.h"

namespace tandem::schemes {

/// Stage s holds `chunks` parts of the model: chunk c of stage s comes after chunk c of stage s - 1, and
/// chunk c of stage 0 after chunk c - 1 of the last stage, unless they go in a V.
struct PipelineShape {
  int32_t stages = 1;
  int32_t micro_batches = 1;
  int32_t chunks = 1;
  /// Every other chunk goes through the stages from the last to the first: stage s of p holds the parts s and
  /// 2p - 1 - s.
  bool v = false;
  /// Where a chunk of a stage comes in the model, and back.
  int32_t part(int32_t stage, int32_t chunk) const {
    return v && chunk % 2 == 1 ? (chunk + 1) * stages - 1 - stage : chunk * stages + stage;
  }
  int32_t chunk_of(int32_t part) const { return part / stages; }
  int32_t stage_of(int32_t part) const {
    return v && chunk_of(part) % 2 == 1 ? stages - 1 - part % stages : part % stages;
  }
  int32_t parts() const { return stages * chunks; }  ///< that the model is cut into
};

/// What a stage does at one turn: a pass over one of its chunks for one micro-batch.
struct Slot {
  enum class What : uint8_t {
    forward,
    backward,  ///< the gradients of inputs and of weights
    data,      ///< of inputs alone: all that the stage before waits for
    weights,   ///< of weights alone, any time after `data`
  };
  What what = What::forward;
  int32_t micro_batch = 0, chunk = 0;
  bool operator==(const Slot&) const = default;
};
std::string_view name(Slot::What what);

struct PipelineSchedule {
  std::string_view name, summary;
  std::string_view source;  ///< the paper
  /// Why it cannot serve the shape, "" if it can. Null: it serves all of one chunk.
  std::string (*refusal)(const PipelineShape&);
  /// The turns of one stage, in order. Requires that the schedule serves the shape. O(micro-batches x
  /// chunks).
  std::vector<Slot> (*slots)(int32_t stage, const PipelineShape& shape);
  /// A stage begins no pass before what the last one made has left it: one call sends, receives and waits for
  /// both (Megatron-Core pipeline_parallel/schedules.py, send_forward_recv_backward; PyTorch's Schedule1F1B).
  bool waits = false;
  bool v = false;  ///< as PipelineShape::v, of two chunks
};

/// A schedule and what it serves.
struct PipelineUse {
  const PipelineSchedule* schedule = nullptr;
  PipelineShape shape;
};

/// Generated from the list in schemes/CMakeLists.txt.
const Registry<PipelineSchedule>& schedules_registry();

/// What a schedule makes of that many stages, micro-batches and chunks; 0 chunks: as few as it can do with.
PipelineShape shape_for(const PipelineSchedule& schedule, int32_t stages, int32_t micro_batches,
                        int32_t chunks = 0);
/// Throws InputError with the reason where the schedule cannot serve the shape.
void check_shape(const PipelineSchedule& schedule, const PipelineShape& shape);

/// Lengths of the passes over one chunk, in any unit; a whole backward takes data + weights.
struct SlotTimes {
  int64_t forward = 1, data = 1, weights = 1;
};
struct TimedSlot {
  Slot slot;
  int64_t begin = 0, end = 0;
};
/// A schedule as it runs where all stages are equally fast and messages take no time.
struct PipelineRun {
  std::vector<std::vector<TimedSlot>> stages;
  int64_t length = 0;  ///< until the last stage is done
  double bubble = 0;   ///< the part of it in which a stage idles; all stages the same
  /// [stage]: most chunks whose activations it holds at a time: from the beginning of their forward to the
  /// end of their last backward pass. In micro-batches of the whole stage: divided by the number of chunks.
  std::vector<int32_t> held;
};
/// Throws InputError as check_shape(), and std::logic_error when stages wait for each other for ever.
/// O(stages x micro-batches x chunks).
PipelineRun run_pipeline(const PipelineSchedule& schedule, const PipelineShape& shape,
                         const SlotTimes& times);

}  // namespace tandem::schemes
