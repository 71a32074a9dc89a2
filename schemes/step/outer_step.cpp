// SPDX-License-Identifier: Apache-2.0
#include "schemes/step/outer_step.h"

#include <fmt/format.h>

#include <algorithm>

#include "schemes/step/grid_options.h"
#include "schemes/step/split_program.h"
#include "schemes/step/training.h"

namespace tandem::schemes {

int64_t workers_of(const Options& o, const Cluster& cluster) {
  if (cluster.devices == 1) return 1;
  const bool nodes = o.text("worker") == "node";
  int64_t workers = o.count("workers");
  if (nodes && cluster.per_node == 0)
    throw InputError("worker=node: nodes with different numbers of devices are no equal workers");
  if (nodes && workers > 0 && workers != cluster.nodes)
    throw InputError(fmt::format("worker=node on {} nodes makes {} workers, not {}", cluster.nodes,
                                 cluster.nodes, workers));
  if (nodes) workers = cluster.nodes;
  if (workers == 0) {
    const int64_t each = replica_of_hybrid(o);
    if (cluster.devices % each != 0)
      throw InputError(fmt::format("{} devices make no workers of {}, as the split of the model asks",
                                   cluster.devices, each));
    workers = cluster.devices / each;
  }
  if (cluster.devices % workers != 0)
    throw InputError(fmt::format("workers={}: {} devices make no equal workers", workers, cluster.devices));
  return workers;
}

std::vector<OptionSpec> with_workers(std::vector<OptionSpec> own) {
  using Type = OptionSpec::Type;
  own.push_back(
      {"worker", Type::choice, "device",
       "what trains by itself: a device, or all of a node, which share out the model as the options "
       "below say",
       "device|node"});
  own.push_back({"workers", Type::count, "0",
                 "number of equal groups of devices that train by themselves; 0: as `worker` says", "", 0,
                 1e6});
  const std::vector<OptionSpec> inside = grid_options();
  own.insert(own.end(), inside.begin(), inside.end());
  return own;
}

bool several_devices(const Options& o, const Cluster& cluster) {
  const int64_t workers = o.count("workers");
  return o.text("worker") == "node" || (workers > 0 && workers != cluster.devices) ||
         replica_of_hybrid(o) > 1 || o.count("microbatches") > 1;
}

Program outer_program(const Workload& work, const Cluster& cluster, const Options& o,
                      const OuterStep& outer) {
  const int64_t workers = workers_of(o, cluster);
  GridSplit split = hybrid_split(o, cluster.devices / workers);
  set_gradient_bytes(split, gradient_bytes(o, work.precision));
  if (workers > 1) {
    split.size[kWorker] = workers;
    split.order.insert(split.order.begin(), kWorker);
    split.outer = outer;
  }
  if (o.text("sharding-group") == "node") shard_within_nodes(split, cluster.per_node);
  return split_program(work, split);
}

PipelineUse pipeline_of_worker(const Options& o, int64_t) {
  const GridSplit split = hybrid_split(o, replica_of_hybrid(o));
  return {split.schedule, split.shape};
}

}  // namespace tandem::schemes
