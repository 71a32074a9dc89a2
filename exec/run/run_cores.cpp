// SPDX-License-Identifier: Apache-2.0
// The processors of the lanes of a run's workers.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "exec/run/run.h"

namespace tandem::exec {

/// Workers of several processes that may use the same processors of a machine divide them.
void Run::make_cores() {
  const Execution& e = execution_;
  if (!e.backend->on_processors) return;
  const Processors processors = e.available_processors();
  uint32_t processes = 1, before = 0;
  if (here_ < workers_) {
    char host[256] = "";
    gethostname(host, sizeof(host) - 1);
    const std::string own = fmt::format("{} {}", host, processors.text());
    const std::vector<std::string> all = gather_over_ranks(own);
    processes = static_cast<uint32_t>(std::count(all.begin(), all.end(), own));
    before = static_cast<uint32_t>(std::count(all.begin(), all.begin() + ranks().rank, own));
  }
  const auto assigned = assign_cores(processors, {e.bind, processes * here_, e.threads, program_.comm_cores});
  const auto first = assigned.begin() + before * here_;
  cores_.assign(first, first + here_);
  numa_nodes_ = processors.nodes.size();
  for (const auto& node : processors.nodes) processors_ += static_cast<int64_t>(node.size());
  threads_ = int64_t{processes} * here_ * e.threads;
}

/// Of all workers of this process.
std::vector<int> Run::communicating() const {
  std::vector<int> out;
  for (const WorkerCores& w : cores_) out.insert(out.end(), w.communicate.begin(), w.communicate.end());
  return out;
}

void Run::bind(uint32_t instance, Lane lane) const {
  if (cores_.empty()) return;
  const WorkerCores& own = cores_[instance - first_here_];
  const bool messages =
      lane == Lane::comm || lane == Lane::reduce || lane == Lane::send || lane == Lane::recv;
  if (messages && !own.communicate.empty()) return bind_thread(own.communicate);
  // Lanes that compute nothing go where there is room, unless everything fits.
  if (lane == Lane::compute || !own.communicate.empty() || execution_.bind == Bind::numa)
    bind_thread(own.compute);
}

std::vector<std::string> Run::remarks() const {
  const Execution& e = execution_;
  std::vector<std::string> out;
  if (e.bind == Bind::numa && numa_nodes_ == 1)
    out.emplace_back("--bind numa: this machine has one NUMA node, and all workers have its processors");
  if (workers_ > 1 && processors_ > 0 && threads_ > processors_ && e.backend->name != "null")
    out.push_back(fmt::format(
        "{} workers{} share {} processor{}: they are time-sliced, unlike workers with a device each",
        threads_ / e.threads, e.threads == 1 ? "" : fmt::format(" of {} threads", e.threads), processors_,
        processors_ == 1 ? "" : "s"));
  if (program_.comm_cores > 0 && !e.backend->on_processors)
    out.push_back(fmt::format("comm-cores: workers of backend {} are bound to no cores", e.backend->name));
  if (e.backend->asynchronous && e.job.scheme->overheads.cycle.ps > 0 && workers_ > 1)
    out.emplace_back(
        "cycle: no coordinator looks for gradients of an asynchronous device; a bucket is summed "
        "when it is full");
  return out;
}

}  // namespace tandem::exec
