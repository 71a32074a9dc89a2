// SPDX-License-Identifier: Apache-2.0
// Data parallel with all-reduce: gradients are summed bucket by bucket while backward goes on; updates follow
// when all of backward is issued (an update issued behind its own reduce would stall the in-order lane).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "schemes/collectives.h"
#include "schemes/training.h"

namespace tandem::schemes {

namespace {

/// Cast between FP32 and FP16 of `elements`: the smaller side has 2 bytes.
Task cast(const GradientBucket& bucket, Pass pass, bool shrink) {
  Kernel k;
  k.kind = KernelKind::elementwise;
  k.pass = pass;
  k.shape = {bucket.elements, 1};
  k.flops = {bucket.elements};
  const Bytes wide = Bytes{4} * bucket.elements, narrow = Bytes{2} * bucket.elements;
  k.read = shrink ? wide : narrow;
  k.written = shrink ? narrow : wide;
  return {bucket.layer, bucket.layers, pass, {k}};
}

void refuse_unsupported(const std::string& algorithm, const Cluster& cluster) {
  if (algorithm == "auto") return;
  const GroupShape group{static_cast<uint32_t>(cluster.devices), static_cast<uint32_t>(cluster.per_node)};
  if (collectives_registry().at(algorithm).supports(CollKind::all_reduce, group)) return;
  throw InputError(
      fmt::format("algorithm={} cannot all-reduce among {} devices on {} nodes: it needs the same number "
                  "of devices on every node",
                  algorithm, cluster.devices, cluster.nodes));
}

Program compile_allreduce(const Workload& work, const Cluster& cluster, const Options& o) {
  const std::string& algorithm = o.text("algorithm");
  const bool parallel = cluster.devices > 1, packed = parallel && o.text("compression") == "fp16";
  if (parallel) refuse_unsupported(algorithm, cluster);
  const Bytes limit = o.bytes("bucket"), first = o.bytes("first-bucket");
  Builder b;
  RoleBuilder w = b.role("worker", worker_mesh(cluster));
  Training t(w, work, {first.n > 0 ? first : limit, limit, packed ? 2 : gradient_bytes(o, work.precision)},
             {o.count("accumulate"), false});

  std::vector<OpId> ready, reduced;
  const auto reduce = [&](const GradientBucket& bucket, OpId gradient) {
    reduced.push_back(w.collective(CollKind::all_reduce, all_axes(worker_mesh(cluster)), bucket.bytes,
                                   algorithm, "all-reduce " + bucket.name)
                          .of(Payload::gradients, bucket.key)
                          .after(gradient)
                          .every(t.every()));
  };
  t.forward();
  t.backward([&](const GradientBucket& bucket, OpId gradient) {
    if (packed) {
      gradient = w.compute(cast(bucket, Pass::backward_weights, true), "compress " + bucket.name)
                     .of(Payload::gradients, bucket.key)
                     .every(t.every());
    }
    ready.push_back(gradient);
    if (parallel && o.flag("overlap")) reduce(bucket, gradient);
  });
  if (parallel && !o.flag("overlap")) {
    for (const GradientBucket& bucket : t.buckets()) reduce(bucket, ready.back());
  }
  std::vector<OpId> updated;
  for (std::size_t i = 0; i < t.buckets().size(); ++i) {
    const GradientBucket& bucket = t.buckets()[i];
    const bool all = o.text("update") == "all";  // sums are made in order: the last is the last to end
    OpId sum = !parallel ? OpId{} : all ? reduced.back() : reduced[i];
    if (packed) {
      const OpId unpacked = w.compute(cast(bucket, Pass::update, false), "decompress " + bucket.name)
                                .of(Payload::gradients, bucket.key)
                                .after(sum)
                                .every(t.every());
      if (work.offload.optimizer) sum = unpacked;
    }
    updated.push_back(t.update(bucket, sum));
  }
  t.reload_all(updated);
  return b.finish();
}

}  // namespace

void register_allreduce(Registry<Scheme>& registry) {
  using Type = OptionSpec::Type;
  static const std::string algorithms =
      fmt::format("auto|{}", fmt::join(collectives_registry().names(), "|"));
  registry.add(
      {"allreduce",
       "data parallel: gradients summed by all-reduce, in buckets, under the backward pass",
       {{"algorithm", Type::choice, "auto", "how the sum is made (tandem list collectives)", algorithms},
        {"bucket", Type::bytes, "25MiB", "gradients reduced together; 0B = every tensor on its own"},
        {"first-bucket", Type::bytes, "0B", "size of the first bucket to be ready; 0B = as the others"},
        {"overlap", Type::flag, "on", "reduce while backward goes on, or after it"},
        {"update", Type::choice, "bucket",
         "what an update waits for: the sum of its own gradients, or of all (one step of the optimiser, "
         "clipping by their norm)",
         "bucket|all"},
        {"compression", Type::choice, "none", "cast gradients before they travel", "none|fp16"},
        kAccumulateOption,
        kGradientsOption},
       compile_allreduce,
       nullptr,
       nullptr,
       nullptr,
       [](const Options& o) {
         return Offload{true, o.count("accumulate") == 1, false, true};
       }});
}

}  // namespace tandem::schemes
