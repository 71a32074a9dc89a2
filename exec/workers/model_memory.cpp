// SPDX-License-Identifier: Apache-2.0
#include "exec/workers/model_memory.h"

#include <algorithm>

#include "exec/layout/memory.h"

namespace tandem::exec {

namespace {

enum Buffers : uint8_t { kInputs, kArena, kParameters, kState, kGradients, kFrozen, kHostParameters };

int64_t input_batches(const Asked& a) {
  return a.stages.split() ? a.stages.slots(a.worker).count : a.execution.loads() ? kInputBatches : 1;
}

int64_t words_of_state(const Asked& a) {
  const Optimizer& rule = *a.execution.job.optimizer;
  return rule.flat() ? rule.state * kept_state(a.program, a.stages, a.worker).elements()
                     : OptimizerState(rule, a.lowered()).words();
}

/// The permanent part of parameters or gradients, and the temporarily whole one.
Need held_need(const Held& held, Bytes MemoryUse::*use) {
  return std::vector<Need::Part>{{Bytes{4} * held.shares, use},
                                 {Bytes{4} * (held.elements - held.shares), &MemoryUse::workspace}};
}

}  // namespace

Needs ModelMemory::needs(const Asked& a) {
  const ExecutionGraph& n = a.lowered();
  const auto& offload = a.execution.job.offload;
  const bool state_on_host = offload.optimizer || a.execution.job.optimizer->paged;
  return {
      {n.input_elements() * input_batches(a), &MemoryUse::buffers},
      {n.arena() * a.stages.slots(a.worker).count + n.passing(), &MemoryUse::activations},
      held_need(exec::held_parameters(a.program, a.stages, a.worker, offload.parameters),
                &MemoryUse::parameters),
      {words_of_state(a), state_on_host ? &MemoryUse::host : &MemoryUse::optimizer},
      held_need(exec::held_gradients(a.program, a.stages, a.worker), &MemoryUse::gradients),
      {n.frozen_words(), &MemoryUse::parameters},
      {offload.optimizer ? exec::kept_state(a.program, a.stages, a.worker).elements() : 0, &MemoryUse::host}};
}

ModelMemory::ModelMemory(Bench& bench) : bench_(bench) {
  const Asked a = bench.asked();
  const Needs need = needs(a);
  const Execution& e = execution();
  slots_ = a.stages.slots(a.worker).count;
  variants_ = input_batches(a);
  kept_state_ = exec::kept_state(a.program, a.stages, a.worker);
  held_parameters_ = exec::held_parameters(a.program, a.stages, a.worker, e.job.offload.parameters);
  held_gradients_ = exec::held_gradients(a.program, a.stages, a.worker);
  optimizer_state_ = OptimizerState(*e.job.optimizer, graph());
  state_words_ = need[kState].words();
  inputs_ = bench.allocate(need[kInputs]);
  arena_ = bench.allocate(need[kArena]);
  const bool paged = e.job.optimizer->paged && e.backend->asynchronous;
  state_on_host_ = offloads() || paged;
  parameters_ = bench.device->allocate(need[kParameters].words() + (state_on_host_ ? 0 : state_words_));
  if (!state_on_host_) state_ = parameters_ + need[kParameters].words();
  gradients_ = bench.allocate(need[kGradients]);
  frozen_ = bench.allocate(need[kFrozen]);
  if (offloads()) {
    const Backend& host = e.backend->asynchronous ? backends_registry().at("cpu") : *e.backend;
    host_ = host.open({bench.plan.device_index(bench.instance), e.job.precision, e.threads, false});
    host_parameters_ = allocate_on_host(need[kHostParameters].words());
    state_ = allocate_on_host(state_words_);
  } else if (paged) {
    state_ = bench.device->allocate_host(state_words_);
  }
  set_start_values();
}

float* ModelMemory::allocate_on_host(int64_t words) const {
  return execution().backend->asynchronous ? bench_.device->allocate_host(words) : host_->allocate(words);
}

float* ModelMemory::tensor(TensorId t, int64_t variant) const {
  const Tensor& x = graph().tensors()[t];
  switch (x.kind) {
    case TensorKind::input:
    case TensorKind::label:
      return inputs(variant) + x.offset;
    case TensorKind::buffer:  // statistics of all micro-batches
      return arena_ + x.offset;
    case TensorKind::parameter:
      return parameters_ + held_parameters_.passes.of(x.offset, x.elements);
    case TensorKind::parameter_gradient:
      return gradients_ + held_gradients_.passes.of(x.offset, x.elements);
    case TensorKind::frozen:
      return frozen_ + x.offset;
    default:
      if (x.passing) return arena_ + slots_ * graph().arena() + x.offset;
      return arena_ + (slots_ > 1 ? variant * graph().arena() : 0) + x.offset;
  }
}

void ModelMemory::add_state(std::vector<float*>& operands, int64_t first) const {
  const Optimizer& rule = *execution().job.optimizer;
  if (!rule.flat()) operands.push_back(state_);
  for (int64_t k = 0; k < rule.state && rule.flat(); ++k)
    operands.push_back(state_ + k * kept_state_.elements() + kept_state_.of(first));
}

void ModelMemory::set_start_values() {
  const RunPlan& plan = bench_.plan;
  const StartValues& start = bench_.run.start();
  const ExecutionGraph &n = graph(), &whole = plan.execution_graph();
  DeviceSession& device = *bench_.device;
  std::vector<float> own;
  take_mapped(plan.stages().parameter_map(bench_.instance), start.parameters, whole.parameters(), own,
              n.parameters());
  const std::vector<float> kept = held_parameters_.kept.take(own, n.parameters());
  device.upload(parameters_, kept.data(), held_parameters_.kept.elements());
  if (offloads()) {
    const std::vector<float> updated = kept_state_.take(own, n.parameters());
    std::copy(updated.begin(), updated.end(), host_parameters_);
  }
  take_mapped(plan.stages().frozen_map(bench_.instance), start.frozen, whole.frozen_elements(), own,
              n.frozen_elements());
  device.upload(frozen_, n.stored(own).data(), n.frozen_words());
  set_start_state();
  set_start_buffers();
}

void ModelMemory::set_start_state() {
  const RunPlan& plan = bench_.plan;
  const StartValues& start = bench_.run.start();
  const OptimizerState& whole = plan.optimizer_state();
  const auto& map = plan.stages().parameter_map(bench_.instance);
  std::vector<float> state;
  if (execution().job.optimizer->flat()) {
    std::vector<float> own;
    take_mapped(map, start.optimizer_state, plan.execution_graph().parameters(), own, graph().parameters());
    state = kept_state_.take(own, graph().parameters());
  } else {
    take_mapped(state_map(whole, optimizer_state_, map), start.optimizer_state, whole.words(), state,
                optimizer_state_.words());
  }
  if (state_on_host_)
    std::copy(state.begin(), state.end(), state_);
  else
    bench_.device->upload(state_, state.data(), static_cast<int64_t>(state.size()));
}

void ModelMemory::set_start_buffers() {
  const ExecutionGraph &n = graph(), &whole = bench_.plan.execution_graph();
  const Checkpoint* saved = execution().start;
  for (const BufferPlace& b : buffers(whole, n)) {
    const Tensor& t = n.tensors()[b.tensor];
    const std::vector<float> values(static_cast<std::size_t>(t.elements), t.initial);
    bench_.device->upload(arena_ + t.offset, saved != nullptr ? saved->buffers.data() + b.at : values.data(),
                          t.elements);
  }
}

std::vector<float> ModelMemory::read(const float* from, int64_t elements) const {
  std::vector<float> out(static_cast<std::size_t>(elements));
  bench_.device->download(out.data(), from, elements);
  return out;
}

std::vector<float> ModelMemory::parameters_now() const {
  const PackedLayout& kept = offloads() ? kept_state_ : held_parameters_.kept;
  return kept.give(offloads() ? std::vector<float>(host_parameters_, host_parameters_ + kept.elements())
                              : read(parameters_, kept.elements()),
                   graph().parameters());
}

std::vector<float> ModelMemory::state_now() const {
  const std::vector<float> kept =
      state_on_host_ ? std::vector<float>(state_, state_ + state_words_) : read(state_, state_words_);
  return execution().job.optimizer->flat() ? kept_state_.give(kept, graph().parameters()) : kept;
}

}  // namespace tandem::exec
