// SPDX-License-Identifier: Apache-2.0
#include "schemes/setup/programs.h"

#include <algorithm>

namespace tandem::schemes {

/// Owns its model and scheme, so that neither can be mistaken for another at the same address.
struct Programs::Training {
  explicit Training(const Job& asked) : graph(*asked.graph), scheme(*asked.scheme), job(asked) {
    job.graph = &graph;
    job.scheme = &scheme;
    job.batches.clear();  // the Program is that of equal batches
    work = std::make_shared<const Workload>(make_workload(job));
  }
  bool is(const Job& other) const {
    return graph.same(*other.graph) && job.batch == other.batch && job.precision == other.precision &&
           job.optimizer == other.optimizer && job.input == other.input && job.recompute == other.recompute &&
           job.offload == other.offload && job.sync_batch_norm == other.sync_batch_norm &&
           job.order == other.order && job.loading == other.loading && scheme == *other.scheme;
  }

  const Graph graph;
  const ResolvedScheme scheme;
  Job job;
  std::shared_ptr<const Workload> work;
  std::mutex lock;
  std::vector<std::pair<Cluster, std::unique_ptr<const Program>>> programs;
};

std::shared_ptr<Programs::Training> Programs::training(const Job& job) {
  const auto find = [&]() -> std::shared_ptr<Training> {
    const auto at = std::find_if(trainings_.begin(), trainings_.end(),
                                 [&](const auto& training) { return training->is(job); });
    if (at == trainings_.end()) return nullptr;
    std::rotate(at, at + 1, trainings_.end());
    return trainings_.back();
  };
  {
    const std::lock_guard lock(lock_);
    if (auto known = find()) return known;
  }
  auto fresh = std::make_shared<Training>(job);
  const std::lock_guard lock(lock_);
  if (auto known = find()) return known;  // another thread was faster
  if (trainings_.size() >= most_) trainings_.erase(trainings_.begin());
  trainings_.push_back(fresh);
  return fresh;
}

std::shared_ptr<const Workload> Programs::work(const Job& job) {
  const auto own = training(job);
  return {own, own->work.get()};  // whose model it points to lives as long
}

std::shared_ptr<const Program> Programs::program(const Job& job, const Cluster& cluster) {
  const auto own = training(job);
  const std::lock_guard lock(own->lock);
  auto at = std::find_if(own->programs.begin(), own->programs.end(),
                         [&](const auto& program) { return program.first == cluster; });
  if (at == own->programs.end()) {
    auto fresh = std::make_unique<const Program>(compile(own->job, *own->work, cluster));
    at = own->programs.emplace(own->programs.end(), cluster, std::move(fresh));
  }
  return {own, at->second.get()};
}

}  // namespace tandem::schemes
