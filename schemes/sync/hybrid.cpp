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

#include <algorithm>
#include <array>
#include <map>
#include <memory>

#include "schemes/grid_split.h"
#include "schemes/model_cuts.h"
#include "schemes/pipeline_schedule.h"
#include "schemes/stage.h"
#include "schemes/training.h"

namespace tandem::schemes {

namespace {

/// Joins the stages of one program.
class Hybrid {
 public:
  Hybrid(const Workload& work, const GridSplit& split) : work_(work), split_(split) {}

  Program run() {
    lay_out();
    for (int32_t s = 0; s < split_.shape.stages; ++s) add_stage(s);
    connect();
    connect_copies();
    for (Stage& stage : stages_) write(stage);
    return b_.finish();
  }

 private:
  struct Stage {
    explicit Stage(const RoleBuilder& builder) : role(builder) {}
    int32_t index = 0;
    std::unique_ptr<Graph> graph;
    Workload work;
    std::vector<LayerRange> chunks;
    RoleBuilder role;
    std::vector<StageBucket> buckets;
    std::vector<Passage> forward, backward, data, weights, last;  ///< [chunk]; last: of the last micro-batch
    std::vector<OpId> first_forward;                              ///< [chunk]
    std::vector<OpId> inputs;                                     ///< the latest copies
    OpId last_compute;
    std::vector<OpId> made, reduced;  ///< [bucket]; made: all that the chunk does
    std::vector<OpId> gathered;       ///< [bucket]: the first of a step, of sharded parameters
    /// (chunk, micro-batch) -> the sum that its inputs' gradients end with: what the gradients of parameters
    /// wait for that are made apart.
    std::map<std::pair<int32_t, int32_t>, OpId> summed;
  };
  /// A stage and its layer whose first tensor is a weight that other stages have copies of: an embedding, or
  /// an output layer tied to it.
  struct Holder {
    int32_t stage = 0;
    uint32_t layer = 0;
    bool operator==(const Holder&) const = default;
  };
  /// From one holder to another.
  struct CopyWay {
    Holder from, to;
    uint32_t channel = 0;
  };
  /// Channels from a stage to the next and back.
  struct Ways {
    uint32_t forward = 0, backward = 0;
  };

  int64_t stages() const { return split_.shape.stages; }
  int32_t parts() const { return split_.shape.stages * split_.shape.chunks; }
  /// The axes among them that the stages' meshes have.
  uint32_t mask(std::initializer_list<GridAxis> axes) const {
    uint32_t out = 0;
    for (const GridAxis axis : axes) out |= own_axis_[axis] < 32 ? 1U << own_axis_[axis] : 0;
    return out;
  }
  /// Over which a parameter, or an expert's, is replicated.
  uint32_t replicas_of(bool dealt) const {
    return dealt ? mask({kData, kContext}) : mask({kData, kExpert, kContext});
  }
  bool replicates(bool dealt) const { return split_.holders(dealt) > 1; }

  void lay_out() {
    uint32_t own = 0;
    for (const GridAxis axis : split_.order) {
      const Axis a{std::string(name(axis)), static_cast<int32_t>(split_.size[axis])};
      b_.program().grid.axes.push_back(a);
      if (axis == kPipeline) continue;
      own_axis_[axis] = own++;
      mesh_.axes.push_back(a);
    }
    b_.program().replicas = split_.replicas();
    b_.samples_per_iteration(checked_mul(work_.batch, split_.shape.micro_batches, "the samples of a step"));
    const int64_t d = split_.holders(false), level = split_.sharding;
    const bool fewer = level > 0 && split_.size[kExpert] > 1;
    b_.shard({level >= 3 ? d : 1, level >= 2 ? d : 1, level >= 1 ? d : 1, fewer ? split_.holders(true) : 0});
    ranges_ = cut_model(*work_.graph, work_.layers, parts());
    whole_ = std::make_unique<Graph>(work_.graph->slice(split_.slice()));
    for (uint32_t i = 0; i < work_.graph->layers().size(); ++i) {
      const auto owner = work_.graph->tied_to(i);
      if (owner && !work_.graph->layers()[*owner].parameters.empty()) add_copy(*owner, i);
    }
  }

  int32_t stage_of(uint32_t layer) const {
    int32_t part = 0;
    while (layer >= ranges_[static_cast<std::size_t>(part)].end()) ++part;
    return part % split_.shape.stages;
  }

  void add_copy(uint32_t owner, uint32_t tied) {
    const Holder copy{stage_of(tied), tied}, first{stage_of(owner), owner};
    if (copy.stage == first.stage) return;
    std::vector<Holder>& all = copies_[owner];
    if (all.empty()) all.push_back(first);
    for (const Holder& h : all) {
      if (h.stage == copy.stage)
        throw InputError(fmt::format("{}: layers \"{}\" and \"{}\" on one stage use a weight of another",
                                     work_.graph->name(), work_.graph->layers()[h.layer].name,
                                     work_.graph->layers()[tied].name));
    }
    all.push_back(copy);
  }

  /// Layers of the stage that hold such a weight.
  std::vector<uint32_t> copies_of(int32_t stage) const {
    std::vector<uint32_t> out;
    for (const auto& [owner, holders] : copies_) {
      for (const Holder& h : holders) {
        if (h.stage == stage) out.push_back(h.layer);
      }
    }
    return out;
  }

  void add_stage(int32_t s) {
    ModelSlice slice = split_.slice();
    for (int32_t c = 0; c < split_.shape.chunks; ++c)
      slice.ranges.push_back(ranges_[static_cast<std::size_t>(c * split_.shape.stages + s)]);
    auto graph = std::make_unique<Graph>(work_.graph->slice(slice));
    const std::vector<LayerRange> chunks = slice.ranges;
    Workload work =
        make_workload(*graph, work_.batch, work_.precision, *work_.optimizer, work_.input, work_.recompute);
    const std::string name = stages() > 1 ? fmt::format("stage {}", s) : "worker";
    RoleBuilder role = b_.role(name, mesh_);
    Role& r = b_.program().roles[role.index()];
    if (stages() == 1) slice.ranges.clear();
    r.slice = slice;
    for (const GridAxis axis : split_.order) r.at.push_back(axis == kPipeline ? s : -1);
    auto buckets = stage_buckets(b_, role.index(), *graph, chunks, split_.bucket, split_.gradient,
                                 split_.size[kExpert] > 1, copies_of(s), split_.sharding >= 3);
    for (StageBucket& bucket : buckets) bucket.gathered = split_.sharding >= 3 && replicates(bucket.dealt);
    stages_.push_back(Stage(role));
    Stage& stage = stages_.back();
    stage.index = s;
    stage.graph = std::move(graph);
    stage.work = std::move(work);
    stage.chunks = chunks;
    stage.buckets = std::move(buckets);
    stage.first_forward.resize(chunks.size());
    stage.made.resize(stage.buckets.size());
    stage.reduced.resize(stage.buckets.size());
    stage.gathered.resize(stage.buckets.size());
    for (int32_t c = 0; c < split_.shape.chunks; ++c) write_passages(stage, c);
  }

  void write_passages(Stage& stage, int32_t c) {
    const ChunkInput in{&stage.work, stage.chunks[static_cast<std::size_t>(c)], split_.shape.micro_batches,
                        split_.sharding >= 3 && replicates(false), &stage.buckets};
    std::vector<uint32_t> cuts;
    for (const StageBucket& b : stage.buckets) {
      if (b.chunk == c && replicates(b.dealt)) cuts.push_back(b.layer);
    }
    using What = Slot::What;
    stage.forward.push_back(forward_passage(in));
    stage.backward.push_back(backward_passage(in, What::backward));
    stage.last.push_back(backward_passage(in, What::backward, cuts));
    stage.data.push_back(backward_passage(in, What::data));
    stage.weights.push_back(backward_passage(in, What::weights, cuts));
  }

  /// Layers whose outputs go from part k of the model to part k + 1.
  std::vector<uint32_t> between(int32_t part) const {
    if (part + 1 >= parts()) return {};
    return crossing(*whole_, ranges_[static_cast<std::size_t>(part) + 1].first);
  }
  /// Of one micro-batch.
  Bytes message(const std::vector<uint32_t>& layers) const {
    Bytes sum;
    for (const uint32_t layer : layers)
      sum += Bytes{element_bytes(work_.precision)} *
             checked_mul(elements(whole_->layers()[layer].output), work_.batch, "the activations");
    return sum;
  }

  /// A channel each way between neighbours, and between the last stage and the first where there are several
  /// chunks; its keys are the chunks.
  void connect() {
    for (int32_t s = 0; s < split_.shape.stages && stages() > 1; ++s) {
      const int32_t next = (s + 1) % split_.shape.stages;
      if (next == 0 && split_.shape.chunks == 1) break;
      std::vector<Bytes> keys;
      std::vector<std::vector<uint32_t>> layers;
      for (int32_t c = 0; c < split_.shape.chunks; ++c) {
        layers.push_back(between(c * split_.shape.stages + s));
        keys.push_back(message(layers.back()));
      }
      const RoleBuilder &from = stage(s).role, &to = stage(next).role;
      ways_.push_back({b_.channel(from, to, Address::same_index, keys, layers),
                       b_.channel(to, from, Address::same_index, keys, layers)});
    }
  }

  /// A channel between any two stages with copies of one weight.
  void connect_copies() {
    for (const auto& [owner, holders] : copies_) {
      for (const Holder& from : holders) {
        for (const Holder& to : holders) {
          if (from == to) continue;
          const auto& buckets = stage(from.stage).buckets;
          const auto at = std::find_if(buckets.begin(), buckets.end(),
                                       [&](const StageBucket& b) { return b.tied && b.layer == from.layer; });
          const int64_t cuts = split_.sharding > 0 ? split_.holders(false) : 1;
          const Bytes bytes{split_.gradient * ((at->elements + cuts - 1) / cuts)};
          copy_ways_.push_back({from, to,
                                b_.channel(stage(from.stage).role, stage(to.stage).role, Address::same_index,
                                           {bytes}, {{from.layer, to.layer}})});
        }
      }
    }
  }
  Stage& stage(int32_t s) { return stages_[static_cast<std::size_t>(s)]; }
  const Ways& way(int32_t s) const { return ways_[static_cast<std::size_t>(s)]; }

  void write(Stage& stage) {
    for (const Slot& slot : split_.schedule->slots(stage.index, split_.shape)) {
      if (slot.what == Slot::What::forward)
        write_forward(stage, slot);
      else
        write_backward(stage, slot);
    }
    write_updates(stage);
  }

  /// The part before this chunk is held by the stage before, or for the first stage the last one's chunk
  /// before.
  struct Neighbour {
    bool is = false;
    uint32_t channel = 0, key = 0;
  };
  /// `towards`: where activations of the chunk come from (false) or go to (true).
  Neighbour neighbour(const Stage& stage, int32_t chunk, bool towards, bool backward) const {
    const int32_t part = chunk * split_.shape.stages + stage.index;
    const int32_t sender = towards ? part : part - 1;  // in the forward direction
    if (stages() == 1 || sender < 0 || sender + 1 >= parts()) return {};
    const Ways& w = way(sender % split_.shape.stages);
    return {true, backward ? w.backward : w.forward, static_cast<uint32_t>(sender / split_.shape.stages)};
  }

  OpId receive(Stage& stage, const Slot& slot, const Neighbour& from, bool backward) {
    if (!from.is) return {};
    return stage.role.recv(from.channel, from.key, backward ? "receive gradients" : "receive activations")
        .on(Lane::recv)
        .of(backward ? Payload::activation_gradients : Payload::activations, from.key)
        .micro(slot.micro_batch);
  }

  void send(Stage& stage, const Slot& slot, const Neighbour& to, OpId after, bool backward) {
    if (!to.is) return;
    stage.role
        .send(to.channel, to.key, b_.program().channels[to.channel].key_bytes[to.key],
              backward ? "send gradients" : "send activations")
        .on(Lane::send)
        .of(backward ? Payload::activation_gradients : Payload::activations, to.key)
        .after(after)
        .micro(slot.micro_batch);
  }

  /// A stage that reads the model's inputs copies its own, two micro-batches ahead.
  OpId input(Stage& stage, const Slot& slot) {
    if (!work_.input || stage.index != 0 || slot.chunk != 0) return {};
    const int64_t whole = checked_mul(work_.graph->sample().decoded.n, work_.batch, "the input's bytes");
    const int64_t bytes = (whole + split_.size[kContext] - 1) / split_.size[kContext];
    OpHandle copy = stage.role.input(work_.batch, {bytes}).micro(slot.micro_batch);
    const std::size_t before = stage.inputs.size();
    if (before >= 2) copy.after(stage.inputs[before - 2]);
    return copy;
  }

  void write_forward(Stage& stage, const Slot& slot) {
    const auto c = static_cast<std::size_t>(slot.chunk);
    const OpId copied = input(stage, slot);
    const OpId received = receive(stage, slot, neighbour(stage, slot.chunk, false, false), false);
    std::vector<OpId> ops;
    const OpId done = emit(stage, stage.forward[c], slot, {copied, received}, ops);
    const OpId first = first_compute(stage.forward[c], ops);
    if (!stage.first_forward[c].valid()) stage.first_forward[c] = first;
    if (copied.valid()) stage.inputs.push_back(first);
    send(stage, slot, neighbour(stage, slot.chunk, true, false), done, false);
  }

  static OpId first_compute(const Passage& passage, const std::vector<OpId>& ops) {
    for (std::size_t i = 0; i < ops.size(); ++i) {
      if (passage.steps[i].kind == PassageStep::Kind::compute) return ops[i];
    }
    return {};
  }

  /// Whole backward, or the two halves of it. Gradients are reduced behind those of the last micro-batch, or
  /// under ZeRO 2 and 3 behind those of each.
  void write_backward(Stage& stage, const Slot& slot) {
    const auto c = static_cast<std::size_t>(slot.chunk);
    const bool makes_weights = slot.what != Slot::What::data;
    const bool reduces =
        makes_weights && (split_.sharding >= 2 || slot.micro_batch + 1 == split_.shape.micro_batches);
    Passage& passage = slot.what == Slot::What::data      ? stage.data[c]
                       : slot.what == Slot::What::weights ? stage.weights[c]
                       : reduces                          ? stage.last[c]
                                                          : stage.backward[c];
    OpId start;
    if (slot.what != Slot::What::weights)
      start = receive(stage, slot, neighbour(stage, slot.chunk, true, true), true);
    else if (const auto sum = stage.summed.find({slot.chunk, slot.micro_batch}); sum != stage.summed.end())
      start = sum->second;
    std::vector<OpId> ops;
    const OpId done = emit(stage, passage, slot, {start}, ops);
    if (slot.what == Slot::What::data && !ops.empty() && passage.steps.back().kind == PassageStep::Kind::join)
      stage.summed[{slot.chunk, slot.micro_batch}] = ops.back();
    if (slot.what != Slot::What::weights)
      send(stage, slot, neighbour(stage, slot.chunk, false, true), done, true);
    if (!reduces) return;
    std::size_t reached = 0;
    for (std::size_t i = 0; i < stage.buckets.size(); ++i) {
      if (stage.buckets[i].chunk != slot.chunk) continue;
      stage.made[i] = stage.last_compute;
      if (!replicates(stage.buckets[i].dealt)) continue;
      const int32_t step = passage.reached[reached++];
      reduce(stage, i, step < 0 ? OpId{} : ops[static_cast<std::size_t>(step)], slot);
    }
  }

  void reduce(Stage& stage, std::size_t i, OpId gradient, const Slot& slot) {
    const StageBucket& bucket = stage.buckets[i];
    const bool scatter = split_.sharding > 0;
    stage.reduced[i] = stage.role
                           .collective(scatter ? CollKind::reduce_scatter : CollKind::all_reduce,
                                       replicas_of(bucket.dealt), Bytes{split_.gradient} * bucket.elements,
                                       "auto", (scatter ? "reduce-scatter " : "all-reduce ") + bucket.name)
                           .on(Lane::reduce)
                           .of(Payload::gradients, bucket.key)
                           .after(gradient)
                           .micro(slot.micro_batch);
  }

  std::string label(const Stage& stage, const PassageStep& step) const {
    const std::string range = range_name(*stage.graph, step.layers);
    if (step.kind == PassageStep::Kind::gather) return "all-gather " + range;
    if (step.kind == PassageStep::Kind::join)
      return fmt::format("{} {}",
                         step.collective == CollKind::all_reduce   ? "sum"
                         : step.collective == CollKind::all_gather ? "gather"
                         : step.collective == CollKind::all_to_all ? "exchange tokens of"
                         : step.collective == CollKind::shift      ? "pass on"
                                                                   : "scatter",
                         range);
    const std::string_view what = step.pass == Pass::forward         ? "forward"
                                  : !step.parts                      ? "backward"
                                  : step.pass == Pass::backward_data ? "backward-data"
                                                                     : "backward-weights";
    return fmt::format("{} {}", what, range);
  }

  /// The ops of a passage; `ops` their ids. The first of them waits for `start`. Returns the op with which
  /// the chunk's result is there.
  OpId emit(Stage& stage, Passage& passage, const Slot& slot, const std::vector<OpId>& start,
            std::vector<OpId>& ops) {
    OpId done;
    for (PassageStep& step : passage.steps) {
      if (step.label.empty()) step.label = label(stage, step);
      OpHandle op = step.kind == PassageStep::Kind::compute ? compute(stage, step) : collective(stage, step);
      for (const int32_t on : {step.after, step.gathered}) {
        if (on >= 0) op.after(ops[static_cast<std::size_t>(on)]);
      }
      if (step.kind == PassageStep::Kind::gather)
        op.after(stage.last_compute);
      else if (!done.valid())
        op.after(start);
      wait_for_reduction(stage, step, slot.chunk, op);
      op.micro(slot.micro_batch);
      if (step.kind != PassageStep::Kind::gather &&
          !(step.parts && step.pass == Pass::backward_weights && slot.what == Slot::What::backward))
        done = op;
      if (step.kind == PassageStep::Kind::compute) stage.last_compute = op;
      ops.push_back(op);
    }
    return done;
  }

  /// Gradients of the micro-batch before that are still being reduced are not written over.
  static void wait_for_reduction(const Stage& stage, const PassageStep& step, int32_t chunk, OpHandle& op) {
    if (step.kind != PassageStep::Kind::compute || step.pass != Pass::backward_weights) return;
    for (std::size_t i = 0; i < stage.buckets.size(); ++i) {
      const LayerRange of = stage.buckets[i].layers;
      if (stage.buckets[i].chunk == chunk && stage.reduced[i].valid() && of.first < step.layers.end() &&
          step.layers.first < of.end())
        op.after(stage.reduced[i]);
    }
  }

  OpHandle compute(Stage& stage, PassageStep& step) {
    if (step.task == UINT32_MAX)
      step.task = b_.task({step.layers.first, step.layers.layers, step.pass, step.kernels, step.parts});
    return stage.role.again(step.task, step.label);
  }

  OpHandle gather(Stage& stage, const PassageStep& step) {
    const StageBucket& bucket = stage.buckets[step.bucket];
    const OpHandle op =
        stage.role.collective(step.collective, replicas_of(bucket.dealt), step.bytes, "auto", step.label)
            .on(Lane::reduce)
            .of(Payload::parameters, bucket.key);
    if (!stage.gathered[step.bucket].valid()) stage.gathered[step.bucket] = op;
    return op;
  }

  OpHandle collective(Stage& stage, const PassageStep& step) {
    if (step.kind == PassageStep::Kind::gather) return gather(stage, step);
    if (step.inside)
      return stage.role.collective(step.collective, partners(step.collective), step.bytes, "auto", step.label)
          .of(Payload::exchanged, step.layers.first);
    return stage.role.collective(step.collective, mask({kTensor}), step.bytes, "auto", step.label)
        .of(step.gradients ? Payload::activation_gradients : Payload::activations, step.layers.first);
  }

  /// Who exchanges in the middle of a layer's pass.
  uint32_t partners(CollKind kind) const {
    if (kind == CollKind::shift) return mask({kContext});
    if (kind != CollKind::all_to_all) return mask({kTensor});
    return split_.whole_experts ? mask({kExpert, kTensor}) : mask({kExpert});
  }

  /// Gradients of a weight with copies, or of each replica's share of it, are summed over the stages that
  /// have one, when nothing else is sent or received any more: each sends its own to the others, and adds
  /// theirs.
  void sum_copies(Stage& stage) {
    for (std::size_t i = 0; i < stage.buckets.size(); ++i) {
      const StageBucket& bucket = stage.buckets[i];
      if (!bucket.tied) continue;
      const Holder own{stage.index, bucket.layer};
      OpId done = replicates(false) ? stage.reduced[i] : stage.made[i];
      for (const bool sends : {true, false}) {
        for (const CopyWay& way : copy_ways_) {
          if ((sends ? way.from : way.to) != own) continue;
          const Bytes bytes = b_.program().channels[way.channel].key_bytes[0];
          const OpHandle op =
              sends
                  ? stage.role.send(way.channel, 0, bytes, "send gradients of " + bucket.name).on(Lane::send)
                  : stage.role.recv(way.channel, 0, "add gradients of " + bucket.name).on(Lane::recv);
          done = OpHandle(op).of(Payload::tied_gradients, 0).after(done);
        }
      }
      stage.reduced[i] = done;
    }
  }

  /// Gradients that each of the devices that share layers made of its part of the sequence are summed over
  /// them, all together, behind what is summed over the replicas (Megatron-Core, finalize_model_grads).
  void sum_over_sequence(Stage& stage) {
    int64_t elements = 0;
    std::vector<std::size_t> of;
    for (std::size_t i = 0; i < stage.buckets.size(); ++i) {
      const LayerRange layers = stage.buckets[i].layers;
      const int64_t before = elements;
      for (uint32_t l = layers.first; l < layers.end() && !stage.buckets[i].dealt; ++l) {
        for (const Parameter& p : stage.graph->layers()[l].parameters)
          elements += p.in_parts ? p.elements : 0;
      }
      if (elements > before) of.push_back(i);
    }
    if (of.empty()) return;
    OpHandle sum = stage.role
                       .collective(CollKind::all_reduce, mask({kTensor}), Bytes{split_.gradient} * elements,
                                   "auto", "sum gradients of parts of the sequence")
                       .on(Lane::reduce)
                       .of(Payload::sequence_gradients, stage.buckets.front().key)
                       .after(stage.last_compute);
    for (const std::size_t i : of) sum.after(stage.reduced[i]);
    for (const std::size_t i : of) stage.reduced[i] = sum;
  }

  OpId update(Stage& stage, std::size_t i) {
    const StageBucket& bucket = stage.buckets[i];
    const int64_t holders = split_.sharding > 0 ? split_.holders(bucket.dealt) : 1;
    std::vector<Kernel> kernels;
    for (const int64_t elements : bucket.tensors)
      append_update(kernels, *work_.optimizer, (elements + holders - 1) / holders, 1);
    return stage.role
        .compute({bucket.layers.first, bucket.layers.layers, Pass::update, std::move(kernels)},
                 fmt::format("{} {}", work_.optimizer->updates() ? "update" : "await", bucket.name))
        .of(holders > 1 ? Payload::shard : Payload::parameters, bucket.key)
        .after(stage.reduced[i]);
  }

  /// One step of the optimiser, where optimiser state is sharded on each replica's share, which is gathered
  /// again; where parameters are sharded too, when the next step's passes need it.
  void write_updates(Stage& stage) {
    const bool gathers = split_.sharding > 0 && split_.sharding < 3;
    sum_over_sequence(stage);
    sum_copies(stage);
    std::vector<OpId> updated(stage.buckets.size());
    for (const bool tied : {false, true}) {  // the last gradients come last
      for (std::size_t i = 0; i < stage.buckets.size(); ++i) {
        if (stage.buckets[i].tied == tied) updated[i] = update(stage, i);
      }
    }
    for (std::size_t i = 0; i < stage.buckets.size(); ++i) {
      if (stage.gathered[i].valid()) stage.role.op(stage.gathered[i]).after_last(updated[i]);
    }
    for (std::size_t i = 0; i < stage.buckets.size() && gathers; ++i) {
      const StageBucket& bucket = stage.buckets[i];
      if (!replicates(bucket.dealt)) continue;
      const OpId gathered = stage.role
                                .collective(CollKind::all_gather, replicas_of(bucket.dealt),
                                            Bytes{element_bytes(work_.precision)} * bucket.elements, "auto",
                                            "all-gather " + bucket.name)
                                .on(Lane::reduce)
                                .of(Payload::parameters, bucket.key)
                                .after(updated[i]);
      const OpId next = stage.first_forward[static_cast<std::size_t>(bucket.chunk)];
      if (next.valid()) stage.role.op(next).after_last(gathered);
    }
  }

  const Workload& work_;
  const GridSplit& split_;
  Builder b_;
  Mesh mesh_;
  std::array<uint32_t, kGridAxes> own_axis_{32, 32, 32, 32, 32};  ///< of a stage's mesh; 32: has none
  std::vector<LayerRange> ranges_;                                ///< [part]
  std::unique_ptr<Graph> whole_;                                  ///< all layers, shared
  std::vector<Stage> stages_;
  std::vector<Ways> ways_;                          ///< [stage]: to the next
  std::map<uint32_t, std::vector<Holder>> copies_;  ///< of an embedding's weight, itself first
  std::vector<CopyWay> copy_ways_;
};

template <GridSplit (*read)(const Options&, int64_t)>
Program compile_split(const Workload& work, const Cluster& cluster, const Options& o) {
  return Hybrid(work, read(o, cluster.devices)).run();
}

Program compile_hybrid(const Workload& work, const Cluster& cluster, const Options& o) {
  GridSplit split = hybrid_split(o, cluster.devices);
  split.gradient = gradient_bytes(o, work.precision);
  return Hybrid(work, split).run();
}

template <GridSplit (*read)(const Options&, int64_t)>
PipelineUse pipeline_of(const Options& o, int64_t devices) {
  const GridSplit split = read(o, devices);
  return {split.schedule, split.shape};
}

}  // namespace

void register_hybrid(Registry<Scheme>& registry) {
  registry.add({"hybrid", "data, tensor, pipeline, expert and context parallelism in one grid of devices",
                hybrid_options(), compile_hybrid, "", nullptr, replica_of_hybrid, pipeline_of<hybrid_split>});
  registry.add(
      {"pipeline", "a stage of consecutive layers on each device, micro-batches one behind the other",
       pipeline_options(), compile_split<pipeline_split>, "", nullptr, nullptr, pipeline_of<pipeline_split>});
  registry.add({"layer-split",
                "consecutive layers on each device, one of which works at a time",
                {},
                compile_split<layer_split>,
                "",
                nullptr,
                nullptr,
                pipeline_of<layer_split>});
  registry.add({"tensor-parallel", "every layer is shared by all devices (Megatron-LM)", tensor_options(),
                compile_split<tensor_split>, "", nullptr, nullptr, pipeline_of<tensor_split>});
}

}  // namespace tandem::schemes
