// SPDX-License-Identifier: Apache-2.0
#include "exec/run/core_binding.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "exec/comm/ranks.h"

namespace tandem::exec {

CoreBinding::CoreBinding(const RunPlan& plan) : plan_(plan) {
  const Execution& e = plan.execution();
  if (!e.backend->on_processors) return;
  const Processors processors = e.available_processors();
  uint32_t processes = 1, before = 0;
  if (plan.across_processes()) {
    char host[256] = "";
    gethostname(host, sizeof(host) - 1);
    const std::string own = fmt::format("{} {}", host, processors.text());
    const std::vector<std::string> all = gather_over_ranks(own);
    processes = static_cast<uint32_t>(std::count(all.begin(), all.end(), own));
    before = static_cast<uint32_t>(std::count(all.begin(), all.begin() + ranks().rank, own));
  }
  const auto assigned =
      assign_cores(processors, {e.bind, processes * plan.here(), e.threads, plan.program().comm_cores});
  const auto first = assigned.begin() + before * plan.here();
  cores_.assign(first, first + plan.here());
  numa_nodes_ = processors.nodes.size();
  processors_ = static_cast<int64_t>(processors.count());
  threads_ = int64_t{processes} * plan.here() * e.threads;
}

std::vector<int> CoreBinding::communicating() const {
  std::vector<int> out;
  for (const WorkerCores& w : cores_) out.insert(out.end(), w.communicate.begin(), w.communicate.end());
  return out;
}

void CoreBinding::bind(uint32_t instance, Lane lane) const {
  if (cores_.empty()) return;
  const WorkerCores& own = cores_[instance - plan_.first_here()];
  const bool messages =
      lane == Lane::comm || lane == Lane::reduce || lane == Lane::send || lane == Lane::recv;
  if (messages && !own.communicate.empty()) return bind_thread(own.communicate);
  // Lanes that compute nothing go where there is room, unless everything fits.
  if (lane == Lane::compute || !own.communicate.empty() || plan_.execution().bind == Bind::numa)
    bind_thread(own.compute);
}

std::vector<std::string> CoreBinding::remarks() const {
  const Execution& e = plan_.execution();
  std::vector<std::string> out;
  if (e.bind == Bind::numa && numa_nodes_ == 1)
    out.emplace_back("--bind numa: this machine has one NUMA node, and all workers have its processors");
  if (plan_.workers() > 1 && processors_ > 0 && threads_ > processors_ && e.backend->name != "null")
    out.push_back(fmt::format(
        "{} workers{} share {} processor{}: they are time-sliced, unlike workers with a device each",
        threads_ / e.threads, e.threads == 1 ? "" : fmt::format(" of {} threads", e.threads), processors_,
        processors_ == 1 ? "" : "s"));
  if (plan_.program().comm_cores > 0 && !e.backend->on_processors)
    out.push_back(fmt::format("comm-cores: workers of backend {} are bound to no cores", e.backend->name));
  return out;
}

}  // namespace tandem::exec
