// SPDX-License-Identifier: Apache-2.0
#include "schemes/step/grid_split.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "schemes/step/stage.h"
#include "schemes/step/training.h"

namespace tandem::schemes {

namespace {

constexpr std::string_view kAxisNames[] = {"data",    "pipeline", "tensor", "expert",
                                           "context", "node",     "worker"};

int64_t product(const std::array<int64_t, kGridAxes>& size, const std::vector<GridAxis>& axes) {
  int64_t out = 1;
  for (const GridAxis axis : axes) out *= size[axis];
  return out;
}

/// `overlap`: as the option overlap-p2p.
void set_schedule(GridSplit& split, const std::string& schedule, int64_t micro_batches, int64_t chunks,
                  const std::string& overlap = "auto") {
  const auto stages = static_cast<int32_t>(split.size[kPipeline]);
  const int64_t micros = micro_batches > 0 ? micro_batches : stages > 1 ? 4 * stages : 1;
  split.schedule = &schedules_registry().at(stages > 1 ? schedule : "1f1b");
  split.shape = shape_for(*split.schedule, stages, static_cast<int32_t>(micros),
                          static_cast<int32_t>(stages > 1 ? chunks : 1));
  split.waits = overlap == "auto" ? split.schedule->waits : overlap == "off";
  check_shape(*split.schedule, split.shape);
}

/// "auto": in a pipeline all, else what the model ends with.
Keeps keeps_of(std::string_view word, bool pipeline) {
  if (word == "auto") return pipeline ? Keeps::all : Keeps::last;
  return word == "none"   ? Keeps::none
         : word == "last" ? Keeps::last
         : word == "root" ? Keeps::root
                          : Keeps::all;
}

/// "auto" is set when it is known how gradients travel (set_bucket).
void read_bucket(GridSplit& split, const Options& o) {
  split.gradients.first_buckets = o.text("bucket") == "auto";
  if (!split.gradients.first_buckets) split.gradients.bucket = parse_bytes(o.text("bucket"));
  if (!o.flag("overlap-reduce"))
    split.gradients.bucket = BucketRule::kEndless, split.gradients.first_buckets = false;
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

}  // namespace

std::string_view name(GridAxis axis) { return kAxisNames[axis]; }

ModelSlice GridSplit::slice() const {
  ModelSlice out;
  out.ways = static_cast<int32_t>(size[kTensor]);
  out.sequence = sequence;
  out.keeps_inputs = sequence && keeps_inputs;
  out.samples = samples;
  out.experts = static_cast<int32_t>(size[kExpert]);
  out.whole_experts = whole_experts;
  out.capacity = capacity;
  out.context = static_cast<int32_t>(size[kContext]);
  return out;
}

std::vector<GridAxis> GridSplit::holding(bool dealt) {
  if (dealt) return {kNode, kData, kContext};
  return {kNode, kData, kExpert, kContext};
}

std::vector<GridAxis> GridSplit::sharding_axes(bool dealt) const {
  std::vector<GridAxis> out = sharding > 0 ? holding(dealt) : std::vector<GridAxis>{};
  std::erase_if(out, [&](GridAxis axis) { return between_nodes[axis]; });
  return out;
}

int64_t GridSplit::holders(bool dealt) const { return product(size, holding(dealt)); }

int64_t GridSplit::shards(bool dealt) const { return product(size, sharding_axes(dealt)); }

std::vector<GridAxis> read_order(const std::string& text) {
  std::vector<GridAxis> out;
  const auto refuse = [&] {
    throw InputError(
        fmt::format("order={}: each of data, pipeline, tensor once, with / between; also expert and context, "
                    "which otherwise come after data",
                    text));
  };
  std::string rest = text;
  while (!rest.empty()) {
    const auto end = std::min(rest.find('/'), rest.size());
    const auto at = std::find(std::begin(kAxisNames), std::end(kAxisNames), rest.substr(0, end));
    rest.erase(0, end + 1);
    const auto axis = static_cast<GridAxis>(at - std::begin(kAxisNames));
    if (axis >= kNode || std::find(out.begin(), out.end(), axis) != out.end()) refuse();
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

namespace {

CutBy read_cut(const std::string& text) {
  return text == "equal" ? CutBy::equal : text == "cost" ? CutBy::cost : CutBy::automatic;
}

}  // namespace

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
        "experts=whole: devices that share layers then send their own tokens, which needs sequence=on");
  split.capacity = o.real("capacity");
  split.relays = o.text("dispatcher") == "deepep";
  split.overlaps = o.flag("overlap");
  split.sharding = o.text("sharding") == "none" ? 0 : o.text("sharding")[0] - '0';
  split.keeps_inputs = o.text("gathered-inputs") == "kept";
  read_bucket(split, o);
  set_schedule(split, o.text("schedule"), o.count("microbatches"), o.count("chunks"), o.text("overlap-p2p"));
  split.keeps = keeps_of(o.text("keeps"), split.shape.stages > 1);
  split.cut = read_cut(o.text("cut"));
  split.scatters = o.flag("scatter-gather") && !split.sequence && !split.overlaps;
  const bool pairs = split.schedule->name == "interleaved" || split.schedule->name == "dualpipev";
  if (split.overlaps && split.shape.stages > 1 && !pairs)
    throw InputError(
        "overlap=on: stages need work of two micro-batches at hand, which schedule=interleaved or dualpipev "
        "gives");
  return split;
}

void set_gradient_bytes(GridSplit& split, int64_t bytes) {
  split.gradients.element = bytes;
  if (!split.gradients.first_buckets) return;
  split.gradients.bucket = Bytes{bytes} * std::max<int64_t>(40'000'000, 1'000'000 * split.holders(false));
}

GridSplit pipeline_split(const Options& o, int64_t devices) {
  GridSplit split;
  split.size[kPipeline] = devices;
  split.gradients.bucket = BucketRule::kEndless;
  set_schedule(split, o.text("schedule"), o.count("microbatches"), o.count("chunks"), o.text("overlap-p2p"));
  split.cut = read_cut(o.text("cut"));
  return split;
}

GridSplit layer_split(const Options&, int64_t devices) {
  GridSplit split;
  split.size[kPipeline] = devices;
  split.gradients.bucket = BucketRule::kEndless;
  set_schedule(split, "gpipe", 1, 1);
  return split;
}

GridSplit tensor_split(const Options& o, int64_t devices) {
  GridSplit split;
  split.size[kTensor] = devices;
  split.sequence = o.flag("sequence") && devices > 1;
  split.gradients.bucket = BucketRule::kEndless;
  set_schedule(split, "1f1b", o.count("microbatches"), 1);
  return split;
}

void shard_within_nodes(GridSplit& split, int64_t per_node) {
  if (split.sharding == 0) return;
  const auto refuse = [&](std::size_t i, std::string_view why) {
    const GridAxis axis = split.order[i];
    throw InputError(fmt::format("sharding-group=node: nodes of {} devices end within the axis {} of {}, {}",
                                 per_node, kAxisNames[axis], split.size[axis], why));
  };
  if (per_node == 0) throw InputError("sharding-group=node: every node needs the same number of devices");
  int64_t inner = 1;  // devices of a node along the later axes, which divides the node's
  for (std::size_t i = split.order.size(); i-- > 0;) {
    const GridAxis axis = split.order[i];
    const int64_t size = split.size[axis], here = per_node / inner;
    split.between_nodes[axis] = here == 1 && size > 1;
    if (here % size == 0) inner *= size;
    if (here == 1 || here % size == 0) continue;
    if (size % here != 0) refuse(i, "which they do not divide");
    if (axis == kExpert || axis == kContext) refuse(i, "where only that of data may be cut");
    inner = per_node;
    if (axis != kData) continue;
    split.size[kNode] = size / here;
    split.size[kData] = here;
    split.between_nodes[kNode] = true;
    split.order.insert(split.order.begin() + static_cast<std::ptrdiff_t>(i), kNode);
  }
}

GridSplit weird_split(const Options&, int64_t devices) {
  GridSplit split;
  split.size[kTensor] = devices;
  split.samples = devices > 1;
  set_schedule(split, "1f1b", 1, 1);
  return split;
}

bool keeps_gathered(const GridSplit& split, const Graph& graph, LayerRange layers, int32_t stage) {
  if (split.keeps != Keeps::last)
    return split.keeps == Keeps::all ||
           (split.keeps == Keeps::root && block_of(graph.layers()[layers.first]).empty());
  if (stage != split.shape.stage_of(split.shape.parts() - 1)) return false;
  const LayerRange end = units_of(graph, {0, static_cast<uint32_t>(graph.layers().size())}).back();
  bool kept = layers.first < end.end() && end.first < layers.end();
  for (uint32_t i = end.first; i < end.end(); ++i) {
    const auto owner = graph.tied_to(i);
    kept = kept || (owner && *owner >= layers.first && *owner < layers.end());
  }
  return kept;
}

int64_t replica_of_hybrid(const Options& o) {
  return devices_of_model(o) * std::max<int64_t>(1, o.count("data"));
}

}  // namespace tandem::schemes
