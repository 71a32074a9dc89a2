// SPDX-License-Identifier: Apache-2.0
#include "schemes/setup/job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

namespace tandem::schemes {

Workload make_workload(const Job& job) {
  Workload work = make_workload(*job.graph, job.batch, job.precision, *job.optimizer, job.input,
                                job.recompute, job.offload, job.loading);
  work.order = job.order;
  return work;
}

namespace {

[[noreturn]] void refuse(const Job& job, std::string_view why) {
  throw InputError(fmt::format("{} cannot offload {}: {}", job.scheme->name, job.offload.text(), why));
}

void check_offload(const Job& job) {
  const Offload& asked = job.offload;
  if (!asked.any()) return;
  const auto can = job.scheme->scheme->offloads;
  if (can == nullptr) {
    std::vector<std::string_view> able;
    for (const Scheme& s : sync_registry().all()) {
      if (s.offloads != nullptr) able.push_back(s.name);
    }
    refuse(job, fmt::format("it leaves nothing in the host's memory; {} and their presets can",
                            fmt::join(able, ", ")));
  }
  if (const Offload able = can(job.scheme->options); !asked.within(able))
    refuse(job, fmt::format("with these options it can offload {} (parameters: zero with stage=3; gradients: "
                            "allreduce and zero, of several micro-batches zero with stage=2 or 3)",
                            able.text()));
  if (asked.optimizer && !job.optimizer->updates()) refuse(job, "the optimizer \"none\" makes no update");
  if (asked.optimizer && job.optimizer->paged)
    refuse(job, fmt::format("the optimizer \"{}\" keeps its state there by itself", job.optimizer->name));
  if (asked.activations && !job.recompute.blocks)
    refuse(job, "activations are what repeated blocks keep for being computed again (--recompute blocks)");
}

/// Names of the schemes whose workers all meet in every iteration.
std::vector<std::string_view> meeting_schemes() {
  std::vector<std::string_view> out;
  for (const Scheme& s : sync_registry().all()) {
    if (s.meets) out.push_back(s.name);
  }
  return out;
}

void check_batch_norm(const Job& job) {
  if (!job.scheme->scheme->meets)
    throw InputError(
        fmt::format("{} cannot synchronise batch normalisation, since its workers do not all meet in every "
                    "iteration; {} and their presets can",
                    job.scheme->name, fmt::join(meeting_schemes(), ", ")));
  if (job.recompute != Recompute{}) throw InputError("--batch-norm sync cannot be combined with --recompute");
  const auto& layers = job.graph->layers();
  const bool any = std::any_of(layers.begin(), layers.end(), [](const Layer& l) {
    return l.type != nullptr && l.type->name == "batch-norm";
  });
  if (!any)
    throw InputError(
        fmt::format("{} has no batch normalisation that could be synchronised", job.graph->name()));
}

/// Whole matrices are dealt out where the state alone is divided (Megatron-LM's layer-wise optimiser,
/// nanochat's DistMuon); devices that share a layer each orthogonalise their part (Megatron-LM's
/// --muon-tp-mode blockwise).
void check_orthogonal(const Job& job, const Program& program) {
  if (!job.optimizer->orthogonal) return;
  const auto no = [&](std::string_view why) {
    throw InputError(fmt::format("{}: the optimizer \"{}\" orthogonalises whole matrices, {}",
                                 job.scheme->name, job.optimizer->name, why));
  };
  if (program.sharding.parameters > 1)
    no("of which each device has a part; with zero:stage=1 or 2 they are dealt out whole");
  if (!program.stores.empty() && program.stores[0].averaging.rule == Averaging::Rule::none)
    no("which servers do not do; allreduce and zero:stage=1 do");
  if (job.offload.any()) no("which is not offloaded");
}

}  // namespace

std::unique_ptr<Graph> synced_graph(const Job& job, const Cluster& cluster) {
  if (!job.sync_batch_norm) return nullptr;
  check_batch_norm(job);
  if (cluster.devices == 1) return nullptr;
  ModelSlice slice;
  slice.norm_devices = static_cast<int32_t>(std::min<int64_t>(cluster.devices, INT32_MAX));
  return std::make_unique<Graph>(job.graph->slice(slice));
}

Program compile(const Job& job, const Workload& work, const Cluster& cluster) {
  check_offload(job);
  const auto graph = synced_graph(job, cluster);
  Workload synced;
  if (graph) {
    synced = work;
    synced.graph = graph.get();
    synced.layers = graph->lower(work.batch, work.precision);
  }
  Program out = job.scheme->scheme->compile(graph ? synced : work, cluster, job.scheme->options);
  check_orthogonal(job, out);
  return out;
}

Program compile(const Job& job, const Cluster& cluster) { return compile(job, make_workload(job), cluster); }

}  // namespace tandem::schemes
