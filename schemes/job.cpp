// SPDX-License-Identifier: Apache-2.0
#include "schemes/job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

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

}  // namespace

Program compile(const Job& job, const Workload& work, const Cluster& cluster) {
  check_offload(job);
  return job.scheme->scheme->compile(work, cluster, job.scheme->options);
}

Program compile(const Job& job, const Cluster& cluster) { return compile(job, make_workload(job), cluster); }

}  // namespace tandem::schemes
