// SPDX-License-Identifier: Apache-2.0
// Data parallel with gradients that are `delay` iterations old when they are applied, so that their sum is
// made under the passes of the next ones (Li et al. 2018, "Pipe-SGD", with delay = K - 1; Rigazzi 2019,
// "DC-S3GD", with delay = 1 and without its compensation).
#include "schemes/step/training.h"

namespace tandem::schemes {

namespace {

/// What an update also does: it leaves the present gradients where the old ones were.
Kernel kept(int64_t elements) {
  Kernel k;
  k.kind = KernelKind::elementwise;
  k.pass = Pass::update;
  k.shape = {elements, 1};
  k.read = k.written = Bytes{4} * elements;
  return k;
}

Program compile_delayed_allreduce(const Workload& work, const Cluster& cluster, const Options& o) {
  const Bytes limit = o.bytes("bucket");
  if (cluster.devices == 1) return train_alone(work, cluster, {limit, limit});
  Builder b;
  const Mesh mesh = worker_mesh(cluster);
  RoleBuilder w = b.role("worker", mesh);
  b.delay(o.count("delay"));
  Training t(w, work, {limit, limit});
  t.forward();
  t.backward();
  for (GradientBucket bucket : t.buckets()) {
    bucket.update.push_back(kept(bucket.elements));
    const OpId update = t.update(bucket);
    const OpId sum =
        w.collective(CollKind::all_reduce, all_axes(mesh), bucket.bytes, "auto", "all-reduce " + bucket.name)
            .of(Payload::gradients, bucket.key)
            .after(update);
    w.op(update).after_last(sum, static_cast<uint16_t>(o.count("delay")));
  }
  return b.finish();
}

}  // namespace

void register_delayed_allreduce(Registry<Scheme>& registry) {
  using Type = OptionSpec::Type;
  registry.add(
      {"delayed-allreduce",
       "data parallel with sums of gradients that are applied some iterations later",
       {{"delay", Type::count, "1", "iterations after which a gradient is applied: its staleness", "", 1,
         100},
        {"bucket", Type::bytes, "25MiB", "gradients reduced together; 0B = every tensor on its own"}},
       compile_delayed_allreduce,
       nullptr,
       nullptr,
       nullptr,
       nullptr,
       true});
}

}  // namespace tandem::schemes
