// SPDX-License-Identifier: Apache-2.0
// Models that no device holds whole: data, tensor and pipeline parallelism in one grid of devices (Narayanan
// et al. 2021, Megatron-LM; Shoeybi et al. 2019; Korthikanti et al. 2022), experts dealt over replicas and
// sequences divided (Megatron-Core). Each stage of the pipeline is a role, whose instances are all devices
// that hold it. "pipeline", "layer-split" and "tensor-parallel" are the same with one axis.
//
// Devices along the expert axis train on samples of their own, as those along data do: what is no expert is
// replicated over both, and an expert over data alone. Devices along context share samples: all parameters
// are replicated over it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "schemes/pipeline_schedule.h"
#include "schemes/split_program.h"
#include "schemes/training.h"

namespace tandem::schemes {

namespace {

template <GridSplit (*read)(const Options&, int64_t)>
Program compile_split(const Workload& work, const Cluster& cluster, const Options& o) {
  return split_program(work, read(o, cluster.devices));
}

Program compile_hybrid(const Workload& work, const Cluster& cluster, const Options& o) {
  GridSplit split = hybrid_split(o, cluster.devices);
  split.gradient = gradient_bytes(o, work.precision);
  if (o.text("sharding-group") == "node") shard_within_nodes(split, cluster.per_node);
  return split_program(work, split);
}

template <GridSplit (*read)(const Options&, int64_t)>
PipelineUse pipeline_of(const Options& o, int64_t devices) {
  const GridSplit split = read(o, devices);
  return {split.schedule, split.shape};
}

Offload offloads(const Options&) { return {.optimizer = true}; }

std::vector<OptionSpec> hybrid_options(const OptionSpec& schedule, const OptionSpec& micro,
                                       const OptionSpec& chunks, const OptionSpec& cut,
                                       const OptionSpec& waiting, const OptionSpec& sequence) {
  using Type = OptionSpec::Type;
  return {
      {"data", Type::count, "0", "replicas of the model, experts and all; 0: as many as the devices make", "",
       0, 1e6},
      {"tensor", Type::count, "1", "devices that share each layer", "", 1, 4096},
      {"pipeline", Type::count, "1", "stages of consecutive layers", "", 1, 4096},
      {"expert", Type::count, "1", "devices that experts are dealt over, with samples of their own", "", 1,
       4096},
      {"context", Type::count, "1", "devices that divide every sequence (ring attention)", "", 1, 4096},
      {"order", Type::text, "pipeline/data/tensor",
       "axes of the grid; neighbours in the last are on neighbouring devices; expert and context, where "
       "not named, behind data"},
      {"experts", Type::choice, "parts",
       "devices that share layers have a part of each expert, or whole ones of their own", "parts|whole"},
      {"capacity", Type::real, "0",
       "an expert takes so many times its even share of tokens, padded; 0: no token is dropped", "", 0, 1000},
      {"dispatcher", Type::choice, "alltoall",
       "how tokens travel: to each of their experts, or once to a node and on from there (DeepEP, HybridEP)",
       "alltoall|deepep"},
      {"overlap", Type::flag, "off", "all-to-alls of a micro-batch run under the work of another"},
      schedule,
      micro,
      chunks,
      cut,
      waiting,
      sequence,
      {"scatter-gather", Type::flag, "on",
       "devices that share layers each send a part of what the next stage gathers; else each sends all"},
      {"sharding", Type::choice, "none",
       "over the replicas: optimiser state (1), gradients (2), parameters (3)", "none|1|2|3"},
      kShardingGroupOption,
      {"bucket", Type::bytes, "40MiB",
       "gradients that travel together; with sharding=3 those of a repeated block do"},
      kGradientsOption};
}

}  // namespace

void register_hybrid(Registry<Scheme>& registry) {
  using Type = OptionSpec::Type;
  static const std::string schedules = fmt::format("{}", fmt::join(schedules_registry().names(), "|"));
  const OptionSpec micro{"microbatches",
                         Type::count,
                         "0",
                         "of --batch samples each in a step; 0: 4 for each stage",
                         "",
                         0,
                         4096};
  const OptionSpec schedule{"schedule", Type::choice, "1f1b",
                            "order of the micro-batches (tandem list schedules)", schedules};
  const OptionSpec chunks{
      "chunks", Type::count, "0", "parts of the model on a stage; 0: 2 if interleaved, else 1", "", 0, 64};
  const OptionSpec cut{"cut", Type::choice, "auto",
                       "stages have equally many repeated blocks (Megatron) or equal work; auto: equal where "
                       "blocks are alike and divide, else cost",
                       "auto|equal|cost"};
  const OptionSpec sequence{"sequence", Type::flag, "off",
                            "devices that share layers divide the sequence between them"};
  const OptionSpec waiting{
      "overlap-p2p", Type::choice, "auto",
      "stages begin their next pass while they send; auto: unless schedule=1f1b, as frameworks have it",
      "auto|on|off"};
  registry.add({"hybrid", "data, tensor, pipeline, expert and context parallelism in one grid of devices",
                hybrid_options(schedule, micro, chunks, cut, waiting, sequence), compile_hybrid, nullptr,
                replica_of_hybrid, pipeline_of<hybrid_split>, offloads});
  registry.add({"pipeline",
                "a stage of consecutive layers on each device, micro-batches one behind the other",
                {schedule, micro, chunks, cut, waiting},
                compile_split<pipeline_split>,
                nullptr,
                nullptr,
                pipeline_of<pipeline_split>,
                offloads});
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
                {micro, sequence},
                compile_split<tensor_split>,
                nullptr,
                nullptr,
                pipeline_of<tensor_split>,
                offloads});
}

}  // namespace tandem::schemes
