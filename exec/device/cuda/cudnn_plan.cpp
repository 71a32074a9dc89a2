// SPDX-License-Identifier: Apache-2.0
// What cuDNN proposes for a graph is filtered by precision, determinism and workspace.
#include "exec/device/cuda/cudnn_plan.h"

#include <algorithm>

namespace tandem::exec::cuda {

namespace {

/// May this configuration be used? Results must not depend on timing, and FP32 must be FP32: tensor cores
/// would round its inputs to TF32.
bool admissible(const Descriptor& configuration, Precision precision) {
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t raw = engine.get();
  int64_t count = 0;
  require(cudnnBackendGetAttribute(configuration.get(), CUDNN_ATTR_ENGINECFG_ENGINE,
                                   CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &raw));
  cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
  require(cudnnBackendGetAttribute(raw, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                   CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes));
  return std::none_of(notes, notes + count, [&](cudnnBackendNumericalNote_t note) {
    return note == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC ||
           note == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION ||
           note == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS ||
           (precision == Precision::fp32 && note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
  });
}

/// What cuDNN proposes for the graph, best estimate first.
std::vector<Descriptor> proposals(const Descriptor& graph, cudnnBackendHeurMode_t mode) {
  Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, &mode);
  heuristic.finish();
  int64_t count = 0;
  require(cudnnBackendGetAttribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                   CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr));
  std::vector<Descriptor> out;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (int64_t i = 0; i < count; ++i) {
    out.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    raw.push_back(out.back().get());
  }
  require(cudnnBackendGetAttribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                   CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count, raw.data()));
  out.erase(out.begin() + count, out.end());
  return out;
}

/// Nothing when this engine does not do this geometry, may not be used, or wants too much workspace.
std::optional<Plan> make_plan(const Descriptor& configuration, const Origin& origin,
                              const Libraries& libraries) {
  try {
    if (!admissible(configuration, libraries.precision)) return std::nullopt;
    Plan p{Descriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR), origin};
    p.plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, &libraries.cudnn);
    p.plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
    p.plan.finish();
    int64_t got = 0;
    require(cudnnBackendGetAttribute(p.plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                                     1, &got, &p.workspace));
    if (static_cast<std::size_t>(p.workspace) > libraries.workspace_bytes) return std::nullopt;
    return p;
  } catch (const Refused&) {
    return std::nullopt;
  }
}

}  // namespace

std::vector<Plan> candidates(const Descriptor& graph, const std::optional<Origin>& known, std::size_t most,
                             const Libraries& libraries) {
  std::vector<Plan> out;
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    if (!out.empty()) break;
    if (known && known->mode != mode) continue;
    try {
      const std::vector<Descriptor> list = proposals(graph, mode);
      for (std::size_t i = 0; i < list.size() && out.size() < most; ++i) {
        if (known && known->index != i) continue;
        auto plan = make_plan(list[i], {mode, i}, libraries);
        if (plan) out.push_back(std::move(*plan));
      }
    } catch (const Refused&) {
      continue;
    }
  }
  return out;
}

cudnnStatus_t run_plan(const Plan& plan, const Libraries& libraries,
                       const std::vector<std::pair<int64_t, void*>>& tensors) {
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  std::vector<void*> pointers;
  std::vector<int64_t> ids;
  for (const auto& [id, pointer] : tensors) {
    ids.push_back(id);
    pointers.push_back(pointer);
  }
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, pointers.data(),
           static_cast<int64_t>(pointers.size()));
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids);
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, &libraries.workspace);
  pack.finish();
  return cudnnBackendExecute(libraries.cudnn, plan.plan.get(), pack.get());
}

}  // namespace tandem::exec::cuda
