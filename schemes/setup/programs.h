// SPDX-License-Identifier: Apache-2.0
#pragma once
// Programs that several predictions share: one question asks for the same one for every resource that it
// turns, and neighbouring questions of a sweep for the same ones again.
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "schemes/setup/job.h"

namespace tandem::schemes {

/// What make_workload() and compile() gave before, by what is trained and how, and by the cluster, with the
/// models and all clusters that were asked for. Any thread may call.
class Programs {
 public:
  /// Keeps those of the last `most` trainings, at least 1.
  explicit Programs(std::size_t most = 64) : most_(most) {}

  /// make_workload(), once for each training. Throws as it does.
  std::shared_ptr<const Workload> work(const Job& job);
  /// compile(job, work(job), cluster), once for each cluster. Throws as it does.
  std::shared_ptr<const Program> program(const Job& job, const Cluster& cluster);

 private:
  struct Training;
  std::shared_ptr<Training> training(const Job& job);

  const std::size_t most_;
  std::mutex lock_;
  std::vector<std::shared_ptr<Training>> trainings_;  ///< the last used at the end
};

}  // namespace tandem::schemes
