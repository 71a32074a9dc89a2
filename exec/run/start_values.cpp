// SPDX-License-Identifier: Apache-2.0
#include "exec/run/start_values.h"

#include <algorithm>

#include "base/random.h"

namespace tandem::exec {

namespace {

/// As LearnedTensor says, drawn by counter.
std::vector<float> drawn_values(const ExecutionGraph& lowered, const Execution& e, bool frozen) {
  std::vector<float> out(static_cast<std::size_t>(frozen ? lowered.frozen_elements() : lowered.parameters()));
  for (const LearnedTensor& l : frozen ? lowered.frozen() : lowered.learned()) {
    const Layer& layer = lowered.graph().layers()[l.layer];
    const int64_t begin = frozen ? l.first : lowered.tensors()[l.parameter].offset;
    for (int64_t i = 0; i < (frozen ? layer.frozen : layer.parameters)[l.index].elements; ++i) {
      const double u = 2 * to_unit(draw_bits(e.seed, l.layer, l.index, static_cast<uint64_t>(i))) - 1;
      out[static_cast<std::size_t>(begin + i)] = l.constant + l.bound * static_cast<float>(u);
    }
  }
  if (e.integer_gradients && !frozen) std::fill(out.begin(), out.end(), 0.0F);
  return out;
}

void take_checkpoint(const RunPlan& plan, const Checkpoint& saved, StartValues& out) {
  out.parameters = saved.parameters;
  out.optimizer_state = saved.state;
  std::size_t buffers = 0;
  for (const Tensor& t : plan.execution_graph().tensors())
    buffers += t.kind == TensorKind::buffer ? static_cast<std::size_t>(t.elements) : 0;
  if (saved.buffers.size() != buffers) throw InputError("the checkpoint holds other buffers than the model");
  const auto kept = static_cast<std::size_t>(averaging_vectors(plan.program())) * out.parameters.size();
  if (kept == 0 || saved.averaging.empty()) return;  // starts afresh
  if (saved.averaging.size() != kept)
    throw InputError("the checkpoint holds what another scheme keeps for averaging");
  out.averaging = saved.averaging;
}

}  // namespace

StartValues start_values(const RunPlan& plan) {
  const Execution& e = plan.execution();
  StartValues out;
  out.parameters = drawn_values(plan.execution_graph(), e, false);
  out.frozen = drawn_values(plan.execution_graph(), e, true);
  out.optimizer_state.resize(static_cast<std::size_t>(plan.optimizer_state().words()));
  if (e.start != nullptr) take_checkpoint(plan, *e.start, out);
  return out;
}

}  // namespace tandem::exec
