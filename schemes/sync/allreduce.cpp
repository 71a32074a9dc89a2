// SPDX-License-Identifier: Apache-2.0
// Data parallel with all-reduce: gradients are summed bucket by bucket while backward goes on; updates follow
// when all of backward is issued (an update issued after its own reduce would stall the in-order lane).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "schemes/collectives/collectives.h"
#include "schemes/step/bucket_order.h"
#include "schemes/step/bucket_sum.h"
#include "schemes/step/training.h"

namespace tandem::schemes {

namespace {

/// The ops of a program.
class Reductions {
 public:
  Reductions(Builder& builder, const Workload& work, const Cluster& cluster, const Options& options)
      : work_(work),
        options_(options),
        mesh_(worker_mesh(cluster)),
        workers_(cluster.devices),
        parallel_(cluster.devices > 1),
        casts_(parallel_ && options.text("compression") == "fp16"),
        w_(builder.role("worker", mesh_)),
        t_(w_, work, rule(), {options.count("accumulate"), false}) {
    if (parallel_) {
      builder.program().compression = read_compression(options);
      builder.program().comm_cores = static_cast<int32_t>(options.count("comm-cores"));
    }
    sum_.compression = builder.program().compression;
    sum_.casts = casts_;
    sum_.algorithm = options.text("algorithm");
    sum_.axes = all_axes(mesh_);
    sum_.members = workers_;
    sum_.every = t_.every();
    for (const GradientBucket& b : t_.buckets()) sums_.emplace_back(sum_, *work.graph, builder, b);
  }

  void run() {
    const bool overlap = options_.flag("overlap");
    if (parallel_ && options_.flag("priority")) return run_by_need();
    t_.forward();
    t_.backward([&](const GradientBucket& bucket, OpId gradient) {
      const BucketSum& sum = sums_[bucket.key];
      ready_.push_back(sum.pack(w_, gradient));
      if (parallel_ && overlap) reduced_.push_back(sum.begin(w_, ready_.back()));
    });
    if (parallel_ && !overlap) {
      for (const BucketSum& sum : sums_) reduced_.push_back(sum.begin(w_, ready_.back()));
    }
    for (std::size_t i = 0; i < reduced_.size(); ++i) reduced_[i] = sums_[i].finish(w_, reduced_[i]);
    const auto last =
        std::max_element(reduced_.begin(), reduced_.end(), [](OpId a, OpId b) { return a.index < b.index; });
    std::vector<OpId> updated;
    for (std::size_t i = 0; i < t_.buckets().size(); ++i) {
      // Sums are made in order: the last is the last to end.
      const bool all = options_.text("update") == "all";
      const OpId sum = !parallel_ ? OpId{} : all ? *last : reduced_[i];
      updated.push_back(t_.update(t_.buckets()[i], unpacked(sums_[i], sum)));
    }
    t_.reload_all(updated);
  }

 private:
  /// A layer's parameters are updated in front of the forward that uses them first, so that the next
  /// iteration begins while later layers' sums are still made. Sums go in the order that the workload says.
  void run_by_need() {
    const auto& buckets = t_.buckets();
    std::vector<OpId> updates(buckets.size());
    std::size_t open = buckets.size();  // from here on updates are listed
    t_.forward([&](uint32_t segment) {
      for (; open > 0 && buckets[open - 1].segment == segment; --open)
        updates[open - 1] = t_.update(buckets[open - 1]);
      return OpId{};
    });
    BucketOrder order(work_.order, buckets.size());
    const auto sum_made = [&](OpId start) {
      order.take([&](uint32_t key, OpId gradient) {
        const OpId after = start.valid() ? start : gradient;
        w_.op(updates[key]).after_last(sums_[key].begin(w_, after));
      });
    };
    t_.backward([&](const GradientBucket& bucket, OpId gradient) {
      order.made(bucket.key, gradient);
      if (options_.flag("overlap")) sum_made({});
    });
    sum_made(t_.last_backward());
  }

  /// A coordinator makes buckets as gradients get ready, of tensors.
  BucketRule rule() const {
    const bool coordinated =
        parallel_ && options_.time("cycle").ps > 0 && options_.text("compression") == "none";
    const Bytes limit = coordinated ? Bytes{} : options_.bytes("bucket"),
                first = coordinated ? Bytes{} : options_.bytes("first-bucket");
    const int64_t element = casts_ ? 2 : gradient_bytes(options_, work_.precision);
    return {first.n > 0 ? first : limit, limit, element, 0, options_.bytes("partition")};
  }
  /// What an update waits for.
  OpId unpacked(const BucketSum& bucket, OpId sum) {
    const OpId out = bucket.unpack(w_, sum);
    return work_.offload.optimizer ? out : sum;
  }

  const Workload& work_;
  const Options& options_;
  Mesh mesh_;
  int64_t workers_;
  bool parallel_, casts_;
  RoleBuilder w_;
  Training t_;
  SumRule sum_;
  std::vector<BucketSum> sums_;        ///< [bucket]
  std::vector<OpId> ready_, reduced_;  ///< [bucket]
};

void refuse_unsupported(const Options& o, const Cluster& cluster) {
  const std::string &algorithm = o.text("algorithm"), &compression = o.text("compression");
  if (algorithm == "auto") return;
  const CollKind kind =
      compression == "int8" || compression == "topk" ? CollKind::all_gather : CollKind::all_reduce;
  const GroupShape group{static_cast<uint32_t>(cluster.devices), static_cast<uint32_t>(cluster.per_node)};
  if (collectives_registry().at(algorithm).supports(kind, group)) return;
  if (kind == CollKind::all_gather)
    throw InputError(
        fmt::format("algorithm={} cannot gather what compression={} makes of gradients among "
                    "{} devices on {} nodes",
                    algorithm, compression, cluster.devices, cluster.nodes));
  throw InputError(
      fmt::format("algorithm={} cannot all-reduce among {} devices on {} nodes: it needs the same number "
                  "of devices on every node",
                  algorithm, cluster.devices, cluster.nodes));
}

Program compile_allreduce(const Workload& work, const Cluster& cluster, const Options& o) {
  if (cluster.devices > 1) refuse_unsupported(o, cluster);
  if (o.flag("priority"))
    refuse_with_priority("allreduce", {{o.text("update") == "all", "update=all"},
                                       {o.count("accumulate") > 1, "accumulate"},
                                       {o.text("compression") != "none", "compression"},
                                       {work.offload.any(), "offloading"}});
  Builder b;
  Reductions(b, work, cluster, o).run();
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
        kCycleOption,
        {"overlap", Type::flag, "on", "reduce while backward goes on, or after it"},
        {"update", Type::choice, "bucket",
         "what an update waits for: the sum of its own gradients, or of all (one step of the optimiser, "
         "clipping by their norm)",
         "bucket|all"},
        {"compression", Type::choice, "none",
         "gradients travel as they are, cast, in 8 bits and a scale, the largest alone, or as products of "
         "thin "
         "matrices",
         "none|fp16|int8|topk|powersgd"},
        kPartitionOption,
        kPriorityOption,
        kCreditOption,
        kDensityOption,
        kRankOption,
        kErrorFeedbackOption,
        {"comm-cores", Type::count, "0",
         "processors that train: cores of each worker that communicate and do nothing else", "", 0, 1024},
        kAccumulateOption,
        kGradientsOption},
       compile_allreduce,
       nullptr,
       nullptr,
       nullptr,
       [](const Options& o) {
         return Offload{true, o.count("accumulate") == 1, false, true};
       },
       true});
}

}  // namespace tandem::schemes
