// SPDX-License-Identifier: Apache-2.0
#include "schemes/step/grid_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>

#include "schemes/schedules/pipeline_schedule.h"
#include "schemes/step/training.h"

namespace tandem::schemes {

OptionSpec micro_batches_option() {
  return {"microbatches",
          OptionSpec::Type::count,
          "0",
          "of --batch samples each in a step; 0: 4 for each stage",
          "",
          0,
          4096};
}

std::vector<OptionSpec> pipeline_options() {
  using Type = OptionSpec::Type;
  static const std::string schedules = fmt::format("{}", fmt::join(schedules_registry().names(), "|"));
  return {{"schedule", Type::choice, "1f1b", "order of the micro-batches (tandem list schedules)", schedules},
          micro_batches_option(),
          {"chunks", Type::count, "0", "parts of the model on a stage; 0: as few as the schedule needs", "",
           0, 64},
          {"cut", Type::choice, "auto",
           "stages have equally many repeated blocks (Megatron) or equal work; auto: equal where blocks are "
           "equal and divide, else cost",
           "auto|equal|cost"},
          {"overlap-p2p", Type::choice, "auto",
           "stages begin their next pass while they send; auto: unless schedule=1f1b, as frameworks have it",
           "auto|on|off"}};
}

std::vector<OptionSpec> grid_options() {
  using Type = OptionSpec::Type;
  std::vector<OptionSpec> out{
      {"data", Type::count, "0", "replicas of the model, experts and all; 0: as many as the devices make", "",
       0, 1e6},
      {"tensor", Type::count, "1", "devices that share each layer", "", 1, 4096},
      {"pipeline", Type::count, "1", "stages of consecutive layers", "", 1, 4096},
      {"expert", Type::count, "1", "devices that experts are dealt over, each with its own samples", "", 1,
       4096},
      {"context", Type::count, "1", "devices that divide every sequence (ring attention)", "", 1, 4096},
      {"order", Type::text, "pipeline/data/tensor",
       "axes of the grid; neighbours in the last are on neighbouring devices; expert and context, where "
       "not named, after data"},
      {"experts", Type::choice, "parts",
       "devices that share layers have a part of each expert, or their own whole experts", "parts|whole"},
      {"capacity", Type::real, "0",
       "an expert takes this many times its even share of tokens, padded; 0: no token is dropped", "", 0,
       1000},
      {"dispatcher", Type::choice, "alltoall",
       "how tokens travel: to each of their experts, or once to a node and on from there (DeepEP, HybridEP)",
       "alltoall|deepep"},
      {"overlap", Type::flag, "off", "all-to-alls of a micro-batch run under the work of another"}};
  const std::vector<OptionSpec> passes = pipeline_options();
  out.insert(out.end(), passes.begin(), passes.end());
  const std::vector<OptionSpec> sharing{
      kSequenceOption,
      {"gathered-inputs", Type::choice, "again",
       "sequence=on: for the parameters' gradients what was gathered of a sequence is gathered again "
       "(Megatron-LM) or was kept (PyTorch's DTensor)",
       "again|kept"},
      {"scatter-gather", Type::flag, "on",
       "devices that share layers each send a part of what the next stage gathers; else each sends all"},
      {"sharding", Type::choice, "none",
       "over the replicas: optimiser state (1), gradients (2), parameters (3)", "none|1|2|3"},
      kShardingGroupOption,
      {"keeps", Type::choice, "auto",
       "sharding=3: what stays gathered for backward: nothing, what the model ends with, all outside of "
       "repeated "
       "blocks, or everything; auto: everything where there is a pipeline, which then gathers and scatters "
       "once a step, else what the model ends with",
       "auto|none|last|root|all"},
      {"bucket", Type::text, "40MiB",
       "size of gradients that travel together; auto, as Megatron: 40 million, or a million for each replica "
       "if that is more, on the first stage, and all of a stage on others; with sharding=3 those of a "
       "repeated block do"},
      {"overlap-reduce", Type::flag, "on",
       "gradients are summed under the backward pass, bucket by bucket, or all of a stage after it"},
      kGradientsOption};
  out.insert(out.end(), sharing.begin(), sharing.end());
  return out;
}

}  // namespace tandem::schemes
