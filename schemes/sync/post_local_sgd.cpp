// SPDX-License-Identifier: Apache-2.0
// Gradients are all-reduced up to an iteration, from which on workers train alone and average their
// parameters every few iterations (Lin et al. 2020, "Don't Use Large Mini-Batches, Use Local SGD", section 3:
// post-local SGD).
#include "schemes/step/training.h"

namespace tandem::schemes {

namespace {

Program compile_post_local_sgd(const Workload& work, const Cluster& cluster, const Options& o) {
  Builder b;
  const Mesh mesh = worker_mesh(cluster);
  RoleBuilder w = b.role("worker", mesh);
  Training t(w, work, {o.bytes("bucket"), o.bytes("bucket")});
  const int64_t alone_from = o.count("after");
  const bool parallel = cluster.devices > 1;
  std::vector<OpId> sums;
  t.forward();
  t.backward([&](const GradientBucket& bucket, OpId gradient) {
    if (!parallel || alone_from == 0) return;
    sums.push_back(
        w.collective(CollKind::all_reduce, all_axes(mesh), bucket.bytes, "auto", "all-reduce " + bucket.name)
            .of(Payload::gradients, bucket.key)
            .after(gradient)
            .until(alone_from));
  });
  for (std::size_t i = 0; i < t.buckets().size(); ++i) {
    const GradientBucket& bucket = t.buckets()[i];
    const OpId updated = t.update(bucket, i < sums.size() ? sums[i] : OpId{});
    if (!parallel) continue;
    const OpId average =
        w.collective(CollKind::all_reduce, all_axes(mesh), bucket.bytes, "auto", "average " + bucket.name)
            .of(Payload::parameters, bucket.key)
            .after(updated)
            .every(o.count("every"))
            .from(alone_from);
    t.next_forward_after(bucket, average);
  }
  return b.finish();
}

}  // namespace

void register_post_local_sgd(Registry<Scheme>& registry) {
  using Type = OptionSpec::Type;
  registry.add({"post-local-sgd",
                "all-reduced gradients at first, local training with averages from an iteration on",
                {{"after", Type::count, "100", "iterations whose gradients are all-reduced", "", 0, 10000},
                 {"every", Type::count, "8", "then: iterations between two averages", "", 1, 65535},
                 {"bucket", Type::bytes, "25MiB",
                  "gradients reduced together, and parameters averaged; 0B = every tensor"}},
                compile_post_local_sgd});
}

}  // namespace tandem::schemes
