// SPDX-License-Identifier: Apache-2.0
// Models that no device holds whole: data, tensor and pipeline parallelism in one grid of devices (Narayanan
// et al. 2021, Megatron-LM; Shoeybi et al. 2019; Korthikanti et al. 2022), experts dealt over replicas and
// sequences divided (Megatron-Core). Each stage of the pipeline is a role, whose instances are all devices
// that hold it. "pipeline", "layer-split" and "tensor-parallel" are the same with one axis.
//
// Devices along the expert axis train on their own samples, as those along data do: what is no expert is
// replicated over both, and an expert over data alone. Devices along context share samples: all parameters
// are replicated over it.
#include <fmt/format.h>

#include "schemes/schedules/pipeline_schedule.h"
#include "schemes/step/bucket_order.h"
#include "schemes/step/compression.h"
#include "schemes/step/grid_options.h"
#include "schemes/step/split_program.h"
#include "schemes/step/training.h"

namespace tandem::schemes {

namespace {

template <GridSplit (*read)(const Options&, int64_t)>
Program compile_split(const Workload& work, const Cluster& cluster, const Options& o) {
  return split_program(work, read(o, cluster.devices));
}

Compression compression_of(const Options& o, const GridSplit& split) {
  const auto refuse = [&](std::string_view why) {
    throw InputError(fmt::format("hybrid: compression={} {}", o.text("compression"), why));
  };
  if (split.sharding > 0) refuse("is of whole gradients: sharding=none");
  if (split.size[kExpert] > 1) refuse("is of gradients that all replicas make: expert=1");
  if (o.text("gradients") != "fp32") refuse("is made of fp32: gradients=fp32");
  return read_compression(o);
}

/// A coordinator makes buckets as gradients get ready, of tensors.
void coordinate(GradientTravel& gradients, const Options& o, const GridSplit& split) {
  if (split.holders(false) == 1) return;
  const auto refuse = [&](std::string_view why) {
    throw InputError(fmt::format("hybrid: cycle={} {}", o.text("cycle"), why));
  };
  if (split.sharding > 0) refuse("is of gradients that are summed whole: sharding=none");
  if (split.size[kExpert] > 1) refuse("is of gradients that all replicas make: expert=1");
  if (o.text("compression") != "none") refuse("is of gradients as they are: compression=none");
  if (gradients.first_buckets) refuse("needs the size of what is summed at once: bucket=64MiB");
  gradients.by_tensor = true;
  gradients.late = !o.flag("overlap-reduce");
}

Program compile_hybrid(const Workload& work, const Cluster& cluster, const Options& o) {
  GridSplit split = hybrid_split(o, cluster.devices);
  set_gradient_bytes(split, gradient_bytes(o, work.precision));
  if (o.text("sharding-group") == "node") shard_within_nodes(split, cluster.per_node);
  split.gradients.partition = o.bytes("partition");
  if (split.gradients.partition.n > 0 && split.sharding > 0)
    throw InputError("hybrid: partition cuts what is summed whole: sharding=none");
  if (o.time("cycle").ps > 0) coordinate(split.gradients, o, split);
  split.gradients.by_need = o.flag("priority");
  if (split.gradients.by_need)
    refuse_with_priority("hybrid", {{split.sharding > 0, "sharding"},
                                    {split.overlaps, "overlap=on"},
                                    {o.text("compression") != "none", "compression"},
                                    {work.offload.any(), "offloading"}});
  if (o.text("compression") != "none") split.gradients.compression = compression_of(o, split);
  return split_program(work, split);
}

std::vector<OptionSpec> hybrid_options() {
  using Type = OptionSpec::Type;
  std::vector<OptionSpec> out = grid_options();
  const std::vector<OptionSpec> own{{"compression", Type::choice, "none",
                                     "gradients travel between replicas as they are, in 8 bits and a scale, "
                                     "the largest alone, or as products of "
                                     "thin matrices",
                                     "none|int8|topk|powersgd"},
                                    kDensityOption,
                                    kRankOption,
                                    kErrorFeedbackOption,
                                    kCycleOption,
                                    kPartitionOption,
                                    kPriorityOption,
                                    kCreditOption};
  out.insert(out.end(), own.begin(), own.end());
  return out;
}

template <GridSplit (*read)(const Options&, int64_t)>
PipelineUse pipeline_of(const Options& o, int64_t devices) {
  const GridSplit split = read(o, devices);
  return {split.schedule, split.shape};
}

Offload offloads(const Options&) { return {.optimizer = true}; }

}  // namespace

void register_hybrid(Registry<Scheme>& registry) {
  registry.add({"hybrid", "data, tensor, pipeline, expert and context parallelism in one grid of devices",
                hybrid_options(), compile_hybrid, nullptr, replica_of_hybrid, pipeline_of<hybrid_split>,
                offloads});
  registry.add({"pipeline", "a stage of consecutive layers on each device, micro-batches one after another",
                pipeline_options(), compile_split<pipeline_split>, nullptr, nullptr,
                pipeline_of<pipeline_split>, offloads});
  registry.add({"layer-split",
                "consecutive layers on each device, one of which works at a time",
                {},
                compile_split<layer_split>,
                nullptr,
                nullptr,
                pipeline_of<layer_split>,
                offloads});
  registry.add({"tensor-parallel",
                "every layer is shared by all devices (Megatron-LM)",
                {micro_batches_option(), kSequenceOption},
                compile_split<tensor_split>,
                nullptr,
                nullptr,
                pipeline_of<tensor_split>,
                offloads});
}

}  // namespace tandem::schemes
