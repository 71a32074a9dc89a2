// SPDX-License-Identifier: Apache-2.0
#pragma once
// A training job: what is trained and how, before anything is said of a machine.
#include <memory>
#include <vector>

#include "schemes/setup/loading.h"
#include "schemes/setup/scheme.h"

namespace tandem::schemes {

/// What simulator and executor are asked to run. Pointers are borrowed: their owners must outlive it and
/// whatever is made of it.
struct Job {
  const Graph* graph = nullptr;
  const ResolvedScheme* scheme = nullptr;
  int64_t batch = 32;  ///< samples per device in one pass: an iteration's, or a micro-batch's
  Precision precision = Precision::fp32;
  const Optimizer* optimizer = nullptr;
  bool input = true;  ///< samples come from storage or host memory; false: synthetic data on the device
  Recompute recompute = {};
  Offload offload = {};
  Loading loading = {};              ///< of the input, where there is some
  std::vector<uint32_t> order = {};  ///< Workload::order
  /// Batch normalisation takes its statistics over the samples of all devices, not of each by itself.
  bool sync_batch_norm = false;
  /// Samples of each device in one pass where they differ, `batch` on average
  /// (schemes/setup/uneven_batches.h); empty: all have `batch`. The Program is that of equal batches.
  std::vector<int64_t> batches = {};
};

/// One device's share of it. Throws InputError as Graph::lower does. O(layers).
Workload make_workload(const Job& job);

/// The job's model as its devices train it, where that is another: with batch normalisation over several of
/// them. Null: it is the job's. Throws InputError where that is asked of a scheme whose workers do not meet
/// in every iteration, of a model that has none, or together with recomputation. O(layers).
std::unique_ptr<Graph> synced_graph(const Job& job, const Cluster& cluster);

/// The Program of the job on `cluster`: the same for everyone who asks. Throws InputError where the scheme
/// cannot run there, or offload what is asked.
Program compile(const Job& job, const Cluster& cluster);
/// The same of a workload already made, whose buckets may be its own.
Program compile(const Job& job, const Workload& work, const Cluster& cluster);

}  // namespace tandem::schemes
