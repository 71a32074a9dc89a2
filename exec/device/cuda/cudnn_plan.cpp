// SPDX-License-Identifier: Apache-2.0
// What cuDNN proposes for a graph is filtered by precision, determinism and workspace.
#include "exec/device/cuda/cudnn_plan.h"

#include <fmt/format.h>

#include <algorithm>

namespace tandem::exec::cuda {

namespace {

/// Nothing when this engine does not do this geometry, may not be used, or wants too much workspace.
std::optional<BoundProgram> make_plan(const Descriptor& configuration, const Origin& origin,
                                      const Libraries& libraries, Refusals& refusals) {
  ++refusals.proposed;
  try {
    const Descriptor engine = engine_of(configuration);
    if (!admissible(engine, libraries.precision)) {
      ++refusals.inadmissible;
      return std::nullopt;
    }
    BoundProgram p{Descriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR), origin};
    p.plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, &libraries.cudnn);
    p.plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
    p.plan.finish();
    int64_t got = 0;
    require(cudnnBackendGetAttribute(engine.get(), CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &got,
                                     &p.engine));
    require(cudnnBackendGetAttribute(p.plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                                     1, &got, &p.workspace));
    if (static_cast<std::size_t>(p.workspace) <= workspace_limit(libraries)) return p;
    if (++refusals.too_large == 1 || p.workspace < refusals.least_workspace)
      refusals.least_workspace = p.workspace;
    return std::nullopt;
  } catch (const Refused& refused) {
    ++refusals.failed;
    refusals.status = refused.status;
    return std::nullopt;
  }
}

}  // namespace

Way way_of(const Origin& origin) {
  return {static_cast<int64_t>(origin.mode), static_cast<int64_t>(origin.index)};
}

std::optional<Origin> origin_of(const std::optional<Way>& way) {
  if (!way || way->size() != 2 || way->at(1) < 0) return std::nullopt;
  return Origin{static_cast<cudnnBackendHeurMode_t>(way->at(0)), static_cast<std::size_t>(way->at(1))};
}

std::string chip_of(const Libraries& libraries) {
  return fmt::format("{} cuDNN {}", libraries.chip, cudnnGetVersion());
}

PlanCache& plans_of(Libraries& libraries) {
  if (!libraries.plans) libraries.plans = std::make_shared<PlanCache>();
  return *libraries.plans;
}

std::string Refusals::text() const {
  std::string out = fmt::format("{} proposal{}", proposed, proposed == 1 ? "" : "s");
  std::string_view before = ": ";
  const auto add = [&](int count, const std::string& what) {
    if (count > 0) out += fmt::format("{}{} {}", before, count, what), before = ", ";
  };
  add(inadmissible, "depend on timing or round more");
  add(too_large, fmt::format("want {} of workspace or more", to_text(Bytes{least_workspace})));
  if (proposed == 0 && status != CUDNN_STATUS_SUCCESS)
    out += fmt::format(": {}", cudnnGetErrorString(status));
  add(failed, fmt::format("fail ({})", cudnnGetErrorString(status)));
  return out;
}

std::vector<BoundProgram> candidates(const Descriptor& graph, const std::optional<Origin>& known,
                                     std::size_t most, const Libraries& libraries, Refusals& refusals) {
  std::vector<BoundProgram> out;
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    if (!out.empty()) break;
    if (known && known->mode != mode) continue;
    try {
      const std::vector<Descriptor> list = proposals(graph, mode);
      for (std::size_t i = 0; i < list.size() && out.size() < most; ++i) {
        if (known && known->index != i) continue;
        auto plan = make_plan(list[i], {mode, i}, libraries, refusals);
        if (plan) out.push_back(std::move(*plan));
      }
    } catch (const Refused& refused) {
      refusals.status = refused.status;
    }
  }
  return out;
}

cudnnStatus_t run_plan(const BoundProgram& plan, const Libraries& libraries,
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
