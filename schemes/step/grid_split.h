// SPDX-License-Identifier: Apache-2.0
#pragma once
// How the devices of a grid divide a model: what the options of "hybrid" and its special cases come to.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/options.h"
#include "models/slice.h"
#include "schemes/program/program.h"
#include "schemes/schedules/pipeline_schedule.h"
#include "schemes/step/model_cuts.h"

namespace tandem::schemes {

/// kNode: parts of the data axis that are on different nodes, where that matters (shard_within_nodes).
/// kWorker: workers of several devices that train apart and average now and then.
enum GridAxis : uint8_t { kData, kPipeline, kTensor, kExpert, kContext, kNode, kWorker, kGridAxes };
std::string_view name(GridAxis axis);

/// What of sharded parameters stays gathered after a forward pass, for the backward pass of the same
/// micro-batch: nothing, what the model ends with (torchtitan: last norm and output layer), all that lies
/// outside of repeated blocks (FSDP2's root), or everything.
enum class Keeps : uint8_t { none, last, root, all };

/// How workers of several devices come together: each device averages its share of the parameters with those
/// that have the same of other workers.
struct OuterStep {
  int64_t every = 0;  ///< iterations; 0: there are no such workers
  Averaging averaging = {};
  bool state = false;            ///< the optimiser's state is averaged too
  Compression compression = {};  ///< of what is averaged, less the anchor
  std::string algorithm = "auto";
};

/// How gradients travel to their sums.
struct GradientTravel {
  Bytes bucket;  ///< of those that travel together
  /// Only the first stage's first chunk has several buckets: nothing is under way before the others' end
  /// (Megatron-Core, model chunks with disable_bucketing, and stages after the first).
  bool first_buckets = false;
  int64_t element = 4;  ///< bytes of one
  Compression compression = {};
  Bytes partition = {};    ///< as BucketRule's
  bool by_tensor = false;  ///< each tensor is a bucket, unless Workload::buckets says otherwise
  bool late = false;       ///< nothing is under way before the end of all backward passes over a chunk
  bool by_need = false;    ///< sums go in the order of Workload::order, and an update is in front of the next
                           ///< forward of its own layers
};

struct GridSplit {
  std::array<int64_t, kGridAxes> size{1, 1, 1, 1, 1, 1, 1};
  /// The last varies fastest. Always data, pipeline and tensor; the others where their size is not 1.
  std::vector<GridAxis> order{kPipeline, kData, kTensor};
  PipelineShape shape;
  const PipelineSchedule* schedule = nullptr;
  bool waits = false;     ///< as PipelineSchedule::waits
  bool scatters = false;  ///< devices that share layers each send a part, which the next stage gathers
  bool sequence = false;
  bool samples = false;  ///< devices that share layers have their own samples (ModelSlice::samples)
  bool whole_experts = false;
  double capacity = 0;
  bool relays = false;    ///< tokens go once to a node, and on from there (DeepEP)
  bool overlaps = false;  ///< all-to-alls of a micro-batch are under the work of another
  int64_t sharding = 0;
  Keeps keeps = Keeps::last;
  /// Devices that divide a sequence keep what they gathered of it for the parameters' gradients (DTensor's
  /// SequenceParallel); else they gather it again (Megatron-LM).
  bool keeps_inputs = false;
  /// [axis]: parameters are sharded over those of its devices alone that are on one node, if any.
  std::array<bool, kGridAxes> between_nodes{};
  CutBy cut = CutBy::automatic;  ///< into stages
  GradientTravel gradients;
  OuterStep outer;

  /// Parameters are gathered once a step and gradients scattered once, after all passes of a chunk, as
  /// torch's stages of a pipeline have it (stage.py, perform_reduce_grad).
  bool gathers_once() const { return sharding >= 3 && keeps == Keeps::all && shape.stages > 1; }
  /// Are gradients scattered in every micro-batch?
  bool scatters_each() const { return sharding >= 2 && !gathers_once(); }

  /// Devices that train on their own samples.
  int64_t replicas() const {
    return size[kWorker] * size[kNode] * size[kData] * size[kExpert] * (samples ? size[kTensor] : 1);
  }
  /// Over which a parameter is replicated; `dealt`: an expert's.
  static std::vector<GridAxis> holding(bool dealt);
  /// Those of them over which it, or its optimiser's state, is sharded.
  std::vector<GridAxis> sharding_axes(bool dealt) const;
  /// Devices whose gradients of one parameter are summed.
  int64_t holders(bool dealt) const;
  /// Of them those between which it, or its optimiser's state, is cut; 1 without sharding.
  int64_t shards(bool dealt) const;
  /// What each device holds of all layers.
  ModelSlice slice() const;
};

/// "pipeline/data/tensor" -> axes, each of data, pipeline and tensor once. Expert and context stand where
/// they are named, else after data. Throws InputError.
std::vector<GridAxis> read_order(const std::string& text);

/// The following throw InputError where axes and devices, or schedule and shape, do not agree.
GridSplit hybrid_split(const Options& options, int64_t devices);
/// Of one gradient, on which the size of buckets depends where that is Megatron-Core's: 40 million
/// parameters, or a million for each replica (DistributedDataParallelConfig).
void set_gradient_bytes(GridSplit& split, int64_t bytes);
GridSplit pipeline_split(const Options& options, int64_t devices);
GridSplit layer_split(const Options& options, int64_t devices);
GridSplit tensor_split(const Options& options, int64_t devices);
GridSplit weird_split(const Options& options, int64_t devices);
/// Sharding is over the devices of a node alone, and each node holds all of it (PyTorch's HSDP: Zhao et al.,
/// VLDB 2023, section 3.2.2; MiCS: Zhang et al., VLDB 2022): cuts the data axis where it crosses nodes of
/// `per_node` devices. Where a node holds a parameter once nothing of it is sharded. Throws InputError where
/// nodes end within a step of an axis.
void shard_within_nodes(GridSplit& split, int64_t per_node);
/// Do the parameters of these layers of a stage, which holds `graph`, stay gathered for backward? The unit
/// that the model ends with shares its fate with a weight that an output layer in it uses.
bool keeps_gathered(const GridSplit& split, const Graph& graph, LayerRange layers, int32_t stage);
/// Devices that hold the model once, or as many times as the options say.
int64_t replica_of_hybrid(const Options& options);

}  // namespace tandem::schemes
