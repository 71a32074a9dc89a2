// SPDX-License-Identifier: Apache-2.0
// Local training with two periods of averaging: often within a node, rarely between nodes (Lin et al. 2020,
// "Don't Use Large Mini-Batches, Use Local SGD", section 5: hierarchical local SGD).
#include <fmt/format.h>

#include "schemes/step/training.h"

namespace tandem::schemes {

namespace {

/// After the average within each node all its devices are equal, so that the average between nodes is one
/// between devices of the same place.
Program compile_hierarchical_local_sgd(const Workload& work, const Cluster& cluster, const Options& o) {
  const Mesh mesh = worker_mesh(cluster);
  if (cluster.devices > 1 && mesh.axes.size() < 2)
    throw InputError(fmt::format("{} devices on {} nodes: hierarchical-local-sgd needs equally many on each",
                                 cluster.devices, cluster.nodes));
  Builder b;
  RoleBuilder w = b.role("worker", mesh);
  Training t(w, work, {BucketRule::kEndless, BucketRule::kEndless});
  t.forward();
  t.backward();
  OpId last;
  for (const GradientBucket& bucket : t.buckets()) last = t.update(bucket);
  const auto average = [&](uint32_t axis, const char* label, int64_t every) {
    if (cluster.devices == 1 || mesh.axes[axis].size == 1) return;
    last = w.collective(CollKind::all_reduce, 1U << axis, t.parameter_bytes(), "auto", label)
               .of(Payload::parameters)
               .after(last)
               .every(every);
    t.next_forward_after(last);
  };
  average(1, "average within the node", o.count("every"));
  average(0, "average between nodes", o.count("every") * o.count("rounds"));
  return b.finish();
}

}  // namespace

void register_hierarchical_local_sgd(Registry<Scheme>& registry) {
  using Type = OptionSpec::Type;
  registry.add({"hierarchical-local-sgd",
                "workers train alone, average their parameters within nodes often and between nodes rarely",
                {{"every", Type::count, "8", "iterations between two averages within a node", "", 1, 255},
                 {"rounds", Type::count, "4", "of these, until nodes average with each other", "", 1, 255}},
                compile_hierarchical_local_sgd});
}

}  // namespace tandem::schemes
