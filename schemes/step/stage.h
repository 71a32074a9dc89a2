// SPDX-License-Identifier: Apache-2.0
#pragma once
// The ops of one stage of a split model: passes over its chunks for micro-batches, the sums between devices
// that share layers, gradient buckets, updates. The counterpart of training.h for slices.
#include <string>
#include <vector>

#include "schemes/program/builder.h"
#include "schemes/schedules/pipeline_schedule.h"
#include "schemes/setup/scheme.h"
#include "schemes/step/buckets.h"

namespace tandem::schemes {

/// One op of a pass over a chunk: a run of layers, or what the devices that share them do in between.
struct PassageStep {
  /// gather: of parameters that are sharded; scatter: of gradients
  enum class Kind : uint8_t { compute, join, gather, scatter };
  bool of_bucket() const { return kind == Kind::gather || kind == Kind::scatter; }
  Kind kind = Kind::compute;
  LayerRange layers;
  Pass pass = Pass::forward;
  bool parts = false, again = false;  ///< as Task's
  std::vector<Kernel> kernels = {};
  CollKind collective = CollKind::all_reduce;
  Bytes bytes = {};
  bool gradients = false;         ///< join: of the layer's output gradients, not its outputs
  bool inside = false;            ///< join: in the middle of the layer's pass
  int64_t active = 0, count = 0;  ///< join inside: as Exchange
  uint32_t bucket = 0;            ///< gather, scatter: of what, an index into ChunkInput::buckets
  /// Steps that it waits for, besides those before it on its lane: work or a join, and a gather of parameters
  /// or a scatter whose gradients' memory it takes.
  int32_t after = -1, gathered = -1;
  uint32_t task = UINT32_MAX;  ///< index into Program::tasks, once it has been used
  std::string label = {};      ///< of its ops, likewise
};

/// A pass over one chunk for one micro-batch, in issue order.
struct Passage {
  std::vector<PassageStep> steps;
  /// Backward: [k]: the step with which the k-th of the cuts that were asked for is reached.
  std::vector<int32_t> reached = {};
  std::vector<int32_t> scattered = {};  ///< [k]: its scatter, or -1
  /// Once it has been written: the routine of its ops (OpList::fold), the steps with which its result is
  /// there, of its first and its last work, those that wait for its input, and the gathers that wait for the
  /// work before it.
  int32_t routine = -1, done = -1, first_compute = -1, last_compute = -1;
  std::vector<uint32_t> begins = {}, gathers_behind = {};
};

/// A passage on its way into the list of ops.
struct Emission {
  Slot slot;
  Passage* passage = nullptr;
  OpId copied = {}, received = {}, sent = {};  ///< what its first op waits for
  std::vector<OpId> ops = {};  ///< [step]; empty where all are there, one after another from `first` on
  OpId first = {}, done = {};  ///< with the latter the chunk's result is there
  OpId first_compute = {}, last_compute = {};
  bool ended() const { return ops.size() == passage->steps.size(); }
  /// Is the step work on the chunk's result, and not on its parameters' gradients alone?
  bool gives_result(const PassageStep& step) const {
    return !step.of_bucket() &&
           !(step.parts && step.pass == Pass::backward_weights && slot.what == Slot::What::backward);
  }
  OpId at(int32_t step) const {
    if (step < 0) return {};
    return first.valid() ? OpId{first.index + static_cast<uint32_t>(step)}
                         : ops[static_cast<std::size_t>(step)];
  }
};

/// Of a step's op: "forward decoder.0.qkv".
std::string label_of(const Graph& graph, const PassageStep& step);

struct StageBucket : SummedBucket {
  int32_t chunk = 0;      ///< in which the last of its gradients is made, by the first of its layers
  bool dealt = false;     ///< of dealt experts, else of all other layers
  bool in_parts = false;  ///< Parameter::in_parts
  bool tied = false;      ///< the one tensor of which another stage has a copy
  bool gathered = false;  ///< its parameters are sharded, and gathered where they are needed
  bool kept = false;      ///< those stay from forward to backward
  int64_t shards = 1;     ///< that its update is cut into
  int64_t share_of(int64_t count) const { return (count + shards - 1) / shards; }
  /// Of the gradients of a device's share.
  Bytes share_bytes() const { return Bytes{bytes.n / elements} * share_of(elements); }
};

/// Of one micro-batch, the outputs of these layers together. O(layers).
Bytes bytes_of_outputs(const Workload& work, const Graph& graph, const std::vector<uint32_t>& layers);
/// Of the bucket's parameters those that devices make gradients of for parts of the sequence
/// (Parameter::in_parts). O(tensors).
int64_t elements_in_parts(const StageBucket& bucket);

/// Where gradients of a bucket are there.
struct Cut {
  uint32_t layer = 0;
  int32_t scatters = -1;  ///< in every micro-batch, this bucket of ChunkInput::buckets; -1: none
};

/// What to build passages from.
struct ChunkInput {
  const Workload* work = nullptr;  ///< of the slice
  LayerRange layers;
  int64_t micro_batches = 1;
  /// Parameters are sharded and gathered, a unit at a time (units_of), one ahead: those of the buckets that
  /// say so.
  bool gathers = false;
  const std::vector<StageBucket>* buckets = nullptr;  ///< of the stage; read where parameters are gathered
  bool keeps_all = false;                             ///< what forward gathered is there in backward
  bool gathers_once = false;                          ///< and in the passes for further micro-batches
};

/// Ranges of layers whose parameters are gathered together: repeated blocks, and what lies between them.
std::vector<LayerRange> units_of(const Graph& graph, LayerRange layers);

/// All layers' forward. `needed`: layers in front of which a step ends.
Passage forward_passage(const ChunkInput& in, const std::vector<uint32_t>& needed = {});
/// Backward: of everything, of the inputs' gradients alone (`data`) or of the parameters' alone (`weights`).
/// The gradients of parameters are made after those of the inputs where partners sum the latter, under that
/// sum. At each layer of `cuts` (decreasing) a step ends when its parameters' gradients are there. Of buckets
/// that are scattered two are whole at once: where no gather does it, the work on one waits for the scatter
/// of the last but one.
Passage backward_passage(const ChunkInput& in, Slot::What what, const std::vector<Cut>& cuts = {});

/// Those over one chunk; the last of its micro-batches ends a step where the cuts are reached.
/// `first`: forward of the first, where parameters are gathered once a step, or a step ends in front of each
/// layer of `needed`.
struct ChunkPassages {
  Passage forward, backward, last, data, weights, first = {};
  Passage& backward_of(Slot::What what, bool is_last) {
    return what == Slot::What::data      ? data
           : what == Slot::What::weights ? weights
           : is_last                     ? last
                                         : backward;
  }
};
ChunkPassages passages_of(const ChunkInput& in, const std::vector<Cut>& cuts,
                          const std::vector<uint32_t>& needed = {});

/// How gradients of a stage are grouped.
struct StageBucketRule {
  Bytes limit;                      ///< with the layer that reaches it a bucket closes
  int64_t element = 4;              ///< bytes of one gradient
  Bytes partition = {};             ///< as BucketRule's
  bool by_tensor = false;           ///< each tensor is one
  bool by_unit = false;             ///< each of units_of() is one, whatever its size
  bool apart = false;               ///< experts have their own, after all others in the role's flat vector
  std::vector<uint32_t> tied = {};  ///< layers whose first tensor has its own, at its place, and is not cut
  std::vector<int64_t> given = {};  ///< Workload::buckets
};

/// Buckets of a stage in the order in which their gradients are made: the last chunk's last layer first. None
/// goes beyond a chunk. Adds them to the program.
std::vector<StageBucket> stage_buckets(Builder& builder, uint32_t role, const Graph& slice,
                                       const std::vector<LayerRange>& chunks, const StageBucketRule& rule);

}  // namespace tandem::schemes
