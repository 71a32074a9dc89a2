// SPDX-License-Identifier: Apache-2.0
#include "schemes/job.h"

namespace tandem::schemes {

Workload make_workload(const Job& job) {
  return make_workload(*job.graph, job.batch, job.precision, *job.optimizer, job.input, job.recompute);
}

Program compile(const Job& job, const Workload& work, const Cluster& cluster) {
  return job.scheme->scheme->compile(work, cluster, job.scheme->options);
}

Program compile(const Job& job, const Cluster& cluster) { return compile(job, make_workload(job), cluster); }

}  // namespace tandem::schemes
