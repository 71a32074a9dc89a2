// SPDX-License-Identifier: Apache-2.0
// Data parallel with nothing held twice (Rajbhandari et al., ZeRO, SC 2020, section 5; PyTorch calls stage 3
// FSDP: Zhao et al., VLDB 2023): gradients are reduce-scattered, every device updates its own share of the
// parameters, and an all-gather brings the shares together where they are needed. Of several micro-batches,
// stage 1 sums whole gradients on every device and reduces them once; stages 2 and 3 hold no whole ones, so
// each micro-batch is reduced and the devices' shares are summed, and stage 3 gathers parameters again in
// each, as DeepSpeed (runtime/zero/stage_1_and_2.py: gradients that are partitioned are reduced before the
// boundary of accumulation too) and FSDP outside no_sync() do. With shards within nodes each micro-batch is
// summed there, and the sums of all of them between nodes once (Zhang et al., MiCS, VLDB 2022, section 3.4).
#include "schemes/step/training.h"

namespace tandem::schemes {

namespace {

/// Devices with a shard each, and those that have the same shard: axes of worker_mesh().
struct Shards {
  int64_t count = 1;
  uint32_t over = 0, replicas = 0;
};

Shards shards_of(const Cluster& cluster, bool within_nodes) {
  const Mesh mesh = worker_mesh(cluster);
  if (!within_nodes || cluster.nodes == 1) return {cluster.devices, all_axes(mesh), 0};
  if (mesh.axes.size() == 1)
    throw InputError("sharding-group=node: every node needs the same number of devices");
  if (cluster.per_node == 1)
    throw InputError("sharding-group=node: a node with one device has nothing to shard over; use allreduce");
  return {cluster.per_node, 2, 1};
}

class Zero {
 public:
  Zero(RoleBuilder& role, Training& training, const Workload& work, Shards shards, const Options& o,
       bool spreads_gradients)
      : w_(role),
        t_(training),
        element_(element_bytes(work.precision)),
        gradient_(gradient_bytes(o, work.precision)),
        shards_(shards),
        overlap_(o.flag("overlap")),
        keeps_(o.text("keeps")),
        parameters_offloaded_(work.offload.parameters),
        spreads_gradients_(spreads_gradients),
        reduces_every_(spreads_gradients ? 1 : training.every()),
        gathered_(training.buckets().size()),
        brought_(training.buckets().size()) {}

  /// Stages 1 and 2: every device has all parameters again before the next forward begins. DeepSpeed and
  /// PyTorch's ZeroRedundancyOptimizer gather them in the optimiser's step.
  void whole_parameters() {
    t_.forward();
    t_.backward(reducer(), {}, [this](uint32_t segment) { return room(segment); });
    update();
    if (spreads_gradients_ && t_.every() > 1) t_.next_backward_after(t_.buckets().front(), scattered_.back());
    const std::vector<OpId> there = t_.reload_all(updated_, shards_.count);
    for (std::size_t b = 0; b < t_.buckets().size(); ++b) {  // as they are updated
      gather(b, there[b]);
      w_.op(gathered_[b]).every(t_.every());
    }
    t_.next_forward_after(gathered_.back());
  }

  /// Does a bucket stay gathered from forward to backward? What is not in a repeated block is FSDP2's root.
  bool kept(std::size_t b) const {
    if (keeps_ == "all") return true;
    return keeps_ == "last" || !t_.has_blocks() ? b == 0 : t_.in_root(t_.buckets()[b]);
  }
  /// The first from `b` on that does not.
  std::size_t let_go(std::size_t b) const {
    while (b < t_.buckets().size() && kept(b)) ++b;
    return b;
  }

  /// Stage 3: the parameters of a bucket are gathered while the bucket before it computes, in forward and
  /// again in backward; so two buckets are held at once.
  void spread_parameters() {
    const auto& buckets = t_.buckets();
    std::size_t held = buckets.size(), asked = held;  // in forward: buckets from here on
    t_.forward([&](uint32_t segment) {
      OpId needed;
      for (; held > 0 && buckets[held - 1].segment == segment; --held) {
        if (asked == held) gather(--asked, t_.last_forward());
        needed = gathered_[held - 1];
      }
      if (overlap_ && asked == held && held > 0) gather(--asked, t_.last_forward());
      return needed;
    });
    const std::vector<OpId> first = brought_;
    held = asked = let_go(0);  // in backward: buckets up to here
    t_.backward(reducer(), {}, [&](uint32_t segment) {
      OpId needed;
      const OpId before = t_.last_backward().valid() ? t_.last_backward() : t_.last_forward();
      const auto ask = [&] {
        gather(asked, before);
        asked = let_go(asked + 1);
      };
      for (; held < buckets.size() && t_.last_segment(buckets[held]) >= t_.reads_from(segment);
           held = let_go(held + 1)) {
        if (asked == held) ask();
        needed = gathered_[held];
      }
      if (overlap_ && asked == held && held < buckets.size()) ask();
      return needed;
    });
    update();
    const std::vector<OpId> there = parameters_offloaded_ ? updated_ : t_.reload_all(updated_, shards_.count);
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      w_.op(first[b]).after_last(there[b]);
      // Of a micro-batch that no update precedes: there is room when the one before is done.
      if (parameters_offloaded_ && t_.every() > 1) w_.op(first[b]).after_last(t_.last_backward());
    }
  }

 private:
  /// Offloaded parameters come up first, each device's share.
  void gather(std::size_t b, OpId after) {
    const GradientBucket& bucket = t_.buckets()[b];
    if (parameters_offloaded_)
      gathered_[b] = brought_[b] = after = t_.reload(bucket, shards_.count).after(after);
    if (shards_.count == 1) return;
    gathered_[b] =
        w_.collective(CollKind::all_gather, shards_.over, Bytes{element_} * bucket.elements + bucket.frozen,
                      "auto", "all-gather " + bucket.name)
            .of(Payload::parameters, bucket.key)
            .after(after);
    if (!parameters_offloaded_) brought_[b] = gathered_[b];
  }

  /// Stage 2 holds two buckets of whole gradients at once: one is not begun before the last but one is
  /// scattered. DeepSpeed has two buffers that alternate (runtime/zero/stage_1_and_2.py, ipg_index), FSDP
  /// waits for the scatter before the last (fsdp/_fully_shard/_fsdp_param_group.py, reduce_scatter_state). In
  /// stage 3 the gather of the bucket's parameters, after that scatter on its lane, does the same.
  OpId room(uint32_t segment) const {
    OpId needed;
    for (std::size_t b = 2; spreads_gradients_ && b < t_.buckets().size() && b < scattered_.size() + 2; ++b) {
      if (t_.last_segment(t_.buckets()[b]) == segment) needed = scattered_[b - 2];
    }
    return needed;
  }

  void reduce(const GradientBucket& bucket, OpId gradient) {
    if (shards_.count > 1) {
      gradient = w_.collective(CollKind::reduce_scatter, shards_.over, bucket.bytes, "auto",
                               "reduce-scatter " + bucket.name)
                     .of(Payload::gradients, bucket.key)
                     .after(gradient)
                     .every(reduces_every_);
    }
    scattered_.push_back(gradient);
    if (shards_.replicas != 0) {
      gradient = w_.collective(CollKind::all_reduce, shards_.replicas, Bytes{gradient_} * elements(bucket),
                               "auto", "all-reduce shard of " + bucket.name)
                     .on(Lane::reduce)
                     .of(Payload::shard, bucket.key)
                     .after(gradient)
                     .every(t_.every());
    }
    reduced_.push_back(gradient);
  }

  /// Of a device's shard.
  int64_t elements(const GradientBucket& bucket) const {
    return (bucket.elements + shards_.count - 1) / shards_.count;
  }

  Training::Ready reducer() {
    return [this](const GradientBucket& bucket, OpId gradient) {
      if (overlap_) reduce(bucket, gradient);
    };
  }

  /// When all of backward is issued: an update after its own reduction would stall the in-order lane.
  void update() {
    for (const GradientBucket& bucket : t_.buckets()) {
      if (!overlap_) reduce(bucket, t_.last_backward());
    }
    for (std::size_t b = 0; b < reduced_.size(); ++b) {
      const GradientBucket& bucket = t_.buckets()[b];
      updated_.push_back(
          t_.update_shard(bucket, elements(bucket), "update", reduced_[b]).of(Payload::shard, bucket.key));
    }
    if (t_.every() == reduces_every_) return;  // the update holds the next backward up
    for (std::size_t b = 0; b < scattered_.size(); ++b)
      t_.next_backward_after(t_.buckets()[b], scattered_[b]);
    if (!overlap_) t_.next_forward_after(scattered_.back());
  }

  RoleBuilder& w_;
  Training& t_;
  int64_t element_, gradient_;  ///< bytes
  Shards shards_;
  bool overlap_;
  std::string keeps_;
  bool parameters_offloaded_, spreads_gradients_;
  int64_t reduces_every_;        ///< iterations
  std::vector<OpId> gathered_;   ///< [bucket]: its latest
  std::vector<OpId> brought_;    ///< [bucket]: the first op of that
  std::vector<OpId> scattered_;  ///< [bucket]: its gradients summed over those with a shard each
  std::vector<OpId> reduced_, updated_;
};

Program compile_zero(const Workload& work, const Cluster& cluster, const Options& o) {
  const int64_t stage = o.count("stage"), n = cluster.devices, micro_batches = o.count("accumulate");
  const Bytes limit = o.bytes("bucket");
  const BucketRule rule{limit,
                        limit,
                        gradient_bytes(o, work.precision),
                        stage == 3 ? element_bytes(work.precision) : 0,
                        {},
                        stage == 3 && o.text("keeps") == "root"};
  if (n == 1 && !work.offload.parameters) return train_alone(work, cluster, rule, micro_batches);
  Builder b;
  RoleBuilder w = b.role("worker", worker_mesh(cluster));
  const Shards shards = shards_of(cluster, o.text("sharding-group") == "node");
  const bool spreads = stage >= 2 && n > 1;
  Training t(w, work, rule, {micro_batches, spreads});
  b.shard({stage == 3 ? shards.count : 1, stage >= 2 ? shards.count : 1, shards.count, 0,
           stage == 3 && o.text("keeps") == "all"});
  if (t.buckets().empty()) throw InputError("the model has no parameters to shard");
  Zero zero(w, t, work, shards, o, spreads);
  if (stage == 3)
    zero.spread_parameters();
  else
    zero.whole_parameters();
  return b.finish();
}

}  // namespace

void register_zero(Registry<Scheme>& registry) {
  using Type = OptionSpec::Type;
  registry.add(
      {"zero",
       "data parallel with optimiser state (stage 1), gradients (2) and parameters (3) sharded over the "
       "devices",
       {{"stage", Type::count, "1",
         "what is sharded: 1 = optimiser state, 2 = gradients too, 3 = parameters too", "", 1, 3},
        {"bucket", Type::bytes, "25MiB", "gradients that travel together; 0B = every tensor on its own"},
        {"overlap", Type::flag, "on", "communicate under forward and backward, or between them"},
        {"keeps", Type::choice, "last",
         "stage=3, what stays gathered for backward: the bucket that forward ends with; what lies outside of "
         "repeated blocks, each of which is then a bucket (FSDP2); or everything",
         "last|root|all"},
        kShardingGroupOption,
        kAccumulateOption,
        kGradientsOption},
       compile_zero,
       nullptr,
       nullptr,
       nullptr,
       [](const Options& o) {
         const bool reduces_each = o.count("accumulate") == 1 || o.count("stage") >= 2;
         return Offload{true, reduces_each, o.count("stage") == 3, true};
       },
       true});
}

}  // namespace tandem::schemes
