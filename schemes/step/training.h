// SPDX-License-Identifier: Apache-2.0
#pragma once
// The part of a training iteration that schemes share: input, forward, backward with gradient buckets, and
// updates, one compute op per few layers and pass.
#include <functional>
#include <string>
#include <vector>

#include "schemes/program/builder.h"
#include "schemes/setup/scheme.h"
#include "schemes/step/buckets.h"

namespace tandem::schemes {

/// A sum over all workers in the middle of a pass over a layer: of statistics of batch normalisation.
struct StatisticsSum {
  uint32_t layer = 0;
  std::size_t after = 0;  ///< how many of the pass' kernels over the segment come before it
  Bytes bytes;
};

/// What one compute op per pass covers, or several where workers meet in the middle: one layer with
/// parameters and its parameterless neighbours (which changes no moment at which a gradient is ready or a
/// parameter needed), or several such in long models.
struct Segment {
  uint32_t layer = 0, layers = 0;  ///< range of Graph::layers()
  std::string name;                ///< of its first layer with parameters
  std::vector<Kernel> forward, backward;
  std::vector<StatisticsSum> forward_sums = {}, backward_sums = {};  ///< in the order of the passes
};

/// How gradients are grouped for communication.
struct BucketRule {
  static constexpr Bytes kEndless{INT64_MAX};
  Bytes first, rest;    ///< a bucket closes when it reaches this size; 0 = after every tensor
  int64_t element = 4;  ///< bytes of one communicated gradient element
  int64_t frozen = 0;   ///< the same of frozen weights, where these are gathered; else 0
  /// A bucket is at most so long, and larger tensors are cut; 0: nothing is cut.
  Bytes partition = {};
  bool by_block = false;  ///< each repeated block is one, and what lies between them, whatever its size
};

/// Filled in backward order as DDP does: the last bucket holds the first layers. Bucket 0 is ready first.
struct GradientBucket : SummedBucket {
  uint32_t segment = 0;  ///< the lowest segment with a tensor in it: its backward completes the bucket
  std::vector<Kernel> update = {};  ///< one launch per tensor; equal ones folded by `repeat`
};

/// Gradients of several micro-batches are summed before the optimiser's step. A micro-batch is one iteration
/// of the program (semantics.md 1.6), so that programs are no longer for it.
struct Accumulation {
  int64_t micro_batches = 1;
  bool of_shards = false;  ///< each micro-batch is reduced, and the devices' shares of the sums added up;
                           ///< else every device adds up whole gradients, in backward, and reduces them once
};
/// "accumulate=8". The limit, since no published batch is more: 4,096 micro-batches of one sequence of 4,096
/// tokens are the 16 M tokens of Llama 3 405B's largest batch, on a single device. Programs do not grow with
/// it, but an engine runs every micro-batch.
inline constexpr OptionSpec kAccumulateOption{
    "accumulate", OptionSpec::Type::count, "1", "micro-batches summed before one update", "", 1, 4096};

/// O(layers) to build. At most kMostSegments segments; where blocks run forward again, which no segment
/// joins, as many more as there are of these.
/// Immutable once made: any thread may read it.
class Training {
 public:
  static constexpr std::size_t kMostSegments = 200;
  /// `work` must outlive it: its batch is a micro-batch's.
  Training(RoleBuilder& role, const Workload& work, const BucketRule& rule, Accumulation accumulation = {});

  const std::vector<Segment>& segments() const { return segments_; }
  const std::vector<GradientBucket>& buckets() const { return buckets_; }
  /// Of all parameters, in the format in which gradients travel.
  Bytes parameter_bytes() const;

  /// Input, with two batches on the device and Loading::prefetch on the host, and forward. `before` is called
  /// before the op of each segment, which then waits for what it gives back, if that is valid.
  using Before = std::function<OpId(uint32_t segment)>;
  void forward(const Before& before = [](uint32_t) { return OpId{}; });
  /// `ready` is called for each bucket, in order, right after the op that completes it. The first op waits
  /// for `start` too, if given; `before` as in forward().
  using Ready = std::function<void(const GradientBucket&, OpId gradient)>;
  void backward(
      const Ready& ready = [](const GradientBucket&, OpId) {}, OpId start = {},
      const Before& before = [](uint32_t) { return OpId{}; });
  /// Once a step, as all that follows from the sums of a step's gradients must, after `sum` (invalid: after
  /// the bucket's backward, called before). With the optimiser "none" an op of no kernels: the next forward
  /// still waits for what the update would. Offloaded it is the host's, after the gradients' way down;
  /// reload() follows.
  OpHandle update(const GradientBucket& bucket, OpId sum = {});
  int64_t every() const { return accumulation_.micro_batches; }
  /// An update of `elements` of the bucket's parameters, where each device makes a share.
  OpHandle update_shard(const GradientBucket& bucket, int64_t elements, std::string_view label,
                        OpId sum = {});
  /// Instead of the optimiser's step what averaging makes of the bucket's parameters, after `mean`.
  OpHandle average(const GradientBucket& bucket, const Averaging& rule, OpId mean);
  /// The parameters of a bucket come up from the host, of the share of one of `devices`.
  OpHandle reload(const GradientBucket& bucket, int64_t devices = 1);
  /// Where updates are offloaded: all buckets come up after `updated` [bucket], once a step, and the next
  /// forward waits for them. Returns these ops; where devices make the updates `updated`.
  std::vector<OpId> reload_all(const std::vector<OpId>& updated, int64_t devices = 1);
  /// Forward of next iteration's layers in `bucket` waits for `op`.
  void next_forward_after(const GradientBucket& bucket, OpId op);
  /// The same for the whole forward.
  void next_forward_after(OpId op);
  /// Backward of next iteration's layers in `bucket`, and of those that use a weight of them, waits for `op`.
  void next_backward_after(const GradientBucket& bucket, OpId op);
  /// The lowest segment whose parameters are read between the backward pass of the segment before and the end
  /// of this one's: itself, or the first of the blocks that run forward again.
  uint32_t reads_from(uint32_t segment) const;
  /// The last segment with a layer of `bucket`; its first is bucket.segment.
  uint32_t last_segment(const GradientBucket& bucket) const;
  bool has_blocks() const;  ///< that repeat (block_of)
  /// Does the bucket hold nothing of such?
  bool in_root(const GradientBucket& bucket) const;
  OpId first_forward() const { return forward_.empty() ? OpId{} : forward_.front(); }
  OpId last_forward() const { return forward_ends_.empty() ? OpId{} : forward_ends_.back(); }
  OpId last_backward() const { return last_backward_; }

 private:
  void split_into_segments();
  void fill_buckets(const BucketRule& rule);
  struct Passed {
    OpId first, last;
  };
  Passed pass(const Segment& segment, bool forward);
  void find_blocks_again();
  OpId run_again(uint32_t segment);
  OpId sum_statistics(const StatisticsSum& sum, OpId made);
  OpHandle update(const GradientBucket& bucket, std::string_view label, std::vector<Kernel> kernels,
                  int64_t elements, OpId sum);
  OpId to_host(const GradientBucket& bucket, int64_t elements, OpId sum);
  /// Those of micro-batches are added up where they lie.
  bool sums_on_host() const { return work_.offload.gradients && accumulation_.micro_batches > 1; }
  uint32_t segment_of(uint32_t layer) const;
  void find_kept_inputs();
  void offload_inputs(uint32_t segment);
  OpId reload_inputs(uint32_t segment, OpId behind);

  RoleBuilder& role_;
  const Workload& work_;
  Accumulation accumulation_;
  int64_t element_;
  std::vector<Segment> segments_;
  std::vector<GradientBucket> buckets_;
  std::vector<OpId> forward_, backward_;  ///< [segment]: first ops; invalid where it has no backward
  std::vector<OpId> forward_ends_;        ///< [segment]: last ops
  std::vector<OpId> made_;                ///< [bucket]: with what its gradients are there
  /// What a repeated block keeps for being computed again, where that is offloaded: an output of `layer`,
  /// which segment `made` makes, and whose way down begins then; it comes up for the backward of segment
  /// `read`.
  struct KeptInput {
    uint32_t layer = 0, made = 0, read = 0;
    Bytes bytes;
    std::string name;  ///< of the block
    OpId down = {};
  };
  std::vector<KeptInput> kept_inputs_;
  /// [segment]: blocks that run forward again before its backward pass.
  std::vector<std::vector<LayerRange>> again_;
  OpId last_backward_;
};

/// Appends to `to` the optimiser's launches for `count` tensors of `elements` each, where it makes any.
void append_update(std::vector<Kernel>& to, const Optimizer& optimizer, int64_t elements, int64_t count);
/// The same for `elements` of one tensor, which an orthogonal optimiser treats by its form.
void append_update(std::vector<Kernel>& to, const Optimizer& optimizer, const Parameter& tensor,
                   int64_t elements);
/// The optimiser's step on the parameters `of` the bucket, or on a device's shard: by the host where it is
/// offloaded.
OpHandle add_update(RoleBuilder& role, const Workload& work, const SummedBucket& bucket, Payload of,
                    std::vector<Kernel> kernels, std::string_view label, OpId after);
/// Adds the gradients of one tensor to those of the micro-batches before; the first has none before it, so
/// this is the mean over a step.
Kernel accumulation_kernel(int64_t elements, int64_t micro_batches);

/// What averaging makes of `elements` parameters, once their mean is there.
Kernel averaging_kernel(const Averaging& rule, int64_t elements);

/// Workers as {"node", "local"} where devices form a grid, else {"device"}.
Mesh worker_mesh(const Cluster& cluster);
/// One device with nobody to synchronise with.
Program train_alone(const Workload& work, const Cluster& cluster, const BucketRule& rule,
                    int64_t micro_batches = 1);
/// Bit mask of all its axes.
uint32_t all_axes(const Mesh& mesh);

/// "gradients=fp32|fp16|auto": bytes of one communicated element. Mixed precision keeps FP32 gradients by
/// default.
inline constexpr OptionSpec kGradientsOption{
    "gradients", OptionSpec::Type::choice, "fp32",
    "format in which gradients travel; auto = that of the activations", "fp32|fp16|auto"};
int64_t gradient_bytes(const Options& options, Precision precision);

/// As Horovod makes its sums.
inline constexpr OptionSpec kCycleOption{
    "cycle", OptionSpec::Type::time, "0s",
    "a coordinator looks this often which gradients all workers have, and sums them together, at most a "
    "bucket at once (HOROVOD_CYCLE_TIME; bucket is HOROVOD_FUSION_THRESHOLD); 0s = every bucket when it is "
    "full"};
/// Buckets that are cut, and of which that many bytes are under way at once (schemes/step/bucket_order.h).
inline constexpr OptionSpec kPartitionOption{"partition", OptionSpec::Type::bytes, "0B",
                                             "larger buckets and tensors are cut; 0B = they stay whole"};
inline constexpr OptionSpec kPriorityOption{
    "priority", OptionSpec::Type::flag, "off",
    "of what is ready sum what the next forward needs first, which waits for its own layer alone"};
inline constexpr OptionSpec kCreditOption{
    "credit", OptionSpec::Type::bytes, "0B",
    "priority: bytes that are under way before the next are chosen; 0B = one bucket"};

/// Shards within nodes are replicated over them: MiCS (Zhang et al., VLDB 2022), FSDP's HYBRID_SHARD.
inline constexpr OptionSpec kShardingGroupOption{
    "sharding-group", OptionSpec::Type::choice, "all",
    "shards over all replicas, or over those on one node, each node holding all of it (HSDP)", "all|node"};

}  // namespace tandem::schemes
