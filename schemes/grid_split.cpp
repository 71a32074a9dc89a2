// SPDX-License-Identifier: Apache-2.0
#include "schemes/grid_split.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "schemes/training.h"

namespace tandem::schemes {

namespace {

constexpr std::string_view kAxisNames[] = {"data", "pipeline", "tensor", "expert", "context"};

void set_schedule(GridSplit& split, const std::string& schedule, int64_t micro_batches, int64_t chunks) {
  const bool several = schedule == "interleaved";
  const auto stages = static_cast<int32_t>(split.size[kPipeline]);
  const int64_t parts = chunks > 0 ? chunks : several ? 2 : 1;
  const int64_t micros = micro_batches > 0 ? micro_batches : stages > 1 ? 4 * stages : 1;
  split.shape = {stages, static_cast<int32_t>(micros), static_cast<int32_t>(stages > 1 ? parts : 1)};
  split.schedule = &schedules_registry().at(stages > 1 ? schedule : "1f1b");
  check_shape(*split.schedule, split.shape);
}

/// Devices that hold the model once.
int64_t devices_of_model(const Options& o) {
  int64_t out = 1;
  for (const char* axis : {"tensor", "pipeline", "expert", "context"})
    out = checked_mul(out, o.count(axis), "the devices that hold the model once");
  return out;
}

void check_devices(const GridSplit& split, int64_t devices) {
  int64_t all = 1;
  std::vector<std::string> factors;
  for (const GridAxis axis : {kTensor, kPipeline, kExpert, kContext, kData}) {
    all = checked_mul(all, split.size[axis], "the devices");
    if (split.size[axis] > 1 || axis == kTensor || axis == kPipeline || axis == kData)
      factors.push_back(fmt::format("{} {}", split.size[axis], kAxisNames[axis]));
  }
  if (all != devices)
    throw InputError(fmt::format("{} are {} devices, not {}", fmt::join(factors, " x "), all, devices));
}

/// Those that several schemes have.
struct SharedOptions {
  OptionSpec schedule, micro, chunks, sequence;
};
SharedOptions shared_options() {
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
  const OptionSpec sequence{"sequence", Type::flag, "off",
                            "devices that share layers divide the sequence between them"};
  return {schedule, micro, chunks, sequence};
}

}  // namespace

std::string_view name(GridAxis axis) { return kAxisNames[axis]; }

ModelSlice GridSplit::slice() const {
  ModelSlice out;
  out.ways = static_cast<int32_t>(size[kTensor]);
  out.sequence = sequence;
  out.experts = static_cast<int32_t>(size[kExpert]);
  out.whole_experts = whole_experts;
  out.capacity = capacity;
  out.context = static_cast<int32_t>(size[kContext]);
  return out;
}

std::vector<GridAxis> read_order(const std::string& text) {
  std::vector<GridAxis> out;
  const auto refuse = [&] {
    throw InputError(
        fmt::format("order={}: each of data, pipeline, tensor once, with / between; also expert and context, "
                    "which else stand behind data",
                    text));
  };
  std::string rest = text;
  while (!rest.empty()) {
    const auto end = std::min(rest.find('/'), rest.size());
    const auto at = std::find(std::begin(kAxisNames), std::end(kAxisNames), rest.substr(0, end));
    rest.erase(0, end + 1);
    const auto axis = static_cast<GridAxis>(at - std::begin(kAxisNames));
    if (at == std::end(kAxisNames) || std::find(out.begin(), out.end(), axis) != out.end()) refuse();
    out.push_back(axis);
  }
  for (const GridAxis axis : {kData, kPipeline, kTensor}) {
    if (std::find(out.begin(), out.end(), axis) == out.end()) refuse();
  }
  for (const GridAxis axis : {kContext, kExpert}) {
    if (std::find(out.begin(), out.end(), axis) == out.end())
      out.insert(std::find(out.begin(), out.end(), kData) + 1, axis);
  }
  return out;
}

GridSplit hybrid_split(const Options& o, int64_t devices) {
  GridSplit split;
  for (const GridAxis axis : {kTensor, kPipeline, kExpert, kContext})
    split.size[axis] = o.count(std::string(kAxisNames[axis]));
  const int64_t each = devices_of_model(o);
  split.size[kData] = o.count("data") > 0 ? o.count("data") : std::max<int64_t>(1, devices / each);
  check_devices(split, devices);
  split.order = read_order(o.text("order"));
  std::erase_if(split.order, [&](GridAxis axis) { return axis > kTensor && split.size[axis] == 1; });
  split.sequence = o.flag("sequence") && split.size[kTensor] > 1;
  split.whole_experts = o.text("experts") == "whole" && split.size[kTensor] > 1;
  if (split.whole_experts && !split.sequence)
    throw InputError(
        "experts=whole: devices that share layers then send tokens of their own, which needs sequence=on");
  split.capacity = o.real("capacity");
  split.sharding = o.text("sharding") == "none" ? 0 : o.text("sharding")[0] - '0';
  split.bucket = o.bytes("bucket");
  set_schedule(split, o.text("schedule"), o.count("microbatches"), o.count("chunks"));
  return split;
}

GridSplit pipeline_split(const Options& o, int64_t devices) {
  GridSplit split;
  split.size[kPipeline] = devices;
  split.bucket = BucketRule::kEndless;
  set_schedule(split, o.text("schedule"), o.count("microbatches"), o.count("chunks"));
  return split;
}

GridSplit layer_split(const Options&, int64_t devices) {
  GridSplit split;
  split.size[kPipeline] = devices;
  split.bucket = BucketRule::kEndless;
  set_schedule(split, "gpipe", 1, 1);
  return split;
}

GridSplit tensor_split(const Options& o, int64_t devices) {
  GridSplit split;
  split.size[kTensor] = devices;
  split.sequence = o.flag("sequence") && devices > 1;
  split.bucket = BucketRule::kEndless;
  set_schedule(split, "1f1b", o.count("microbatches"), 1);
  return split;
}

int64_t replica_of_hybrid(const Options& o) {
  return devices_of_model(o) * std::max<int64_t>(1, o.count("data"));
}

std::vector<OptionSpec> hybrid_options() {
  using Type = OptionSpec::Type;
  const auto [schedule, micro, chunks, sequence] = shared_options();
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
      schedule,
      micro,
      chunks,
      sequence,
      {"sharding", Type::choice, "none",
       "over the replicas: optimiser state (1), gradients (2), parameters (3)", "none|1|2|3"},
      {"bucket", Type::bytes, "40MiB",
       "gradients that travel together; with sharding=3 those of a repeated block do"},
      kGradientsOption};
}

std::vector<OptionSpec> pipeline_options() {
  const SharedOptions o = shared_options();
  return {o.schedule, o.micro, o.chunks};
}

std::vector<OptionSpec> tensor_options() {
  const SharedOptions o = shared_options();
  return {o.micro, o.sequence};
}

}  // namespace tandem::schemes
