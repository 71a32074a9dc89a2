// SPDX-License-Identifier: Apache-2.0
#include "schemes/step/split_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "schemes/schedules/pipeline_schedule.h"
#include "schemes/step/bucket_order.h"
#include "schemes/step/input_stages.h"
#include "schemes/step/model_cuts.h"
#include "schemes/step/stage.h"
#include "schemes/step/stage_average.h"
#include "schemes/step/stage_copies.h"
#include "schemes/step/stage_messages.h"
#include "schemes/step/stage_sums.h"
#include "schemes/step/training.h"

namespace tandem::schemes {

namespace {

/// Joins the stages of one program.
class Hybrid {
 public:
  Hybrid(const Workload& work, const GridSplit& split) : work_(work), split_(split) {}

  Program run() {
    lay_out();
    for (int32_t s = 0; s < split_.shape.stages; ++s) add_stage(s);
    std::vector<RoleBuilder> roles;
    for (const Stage& stage : stages_) roles.push_back(stage.role);
    messages_->connect(b_, roles);
    copies_.connect(b_, roles, [this](const WeightHolder& h) { return tied_gradients(h); });
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
    std::vector<std::pair<uint32_t, uint32_t>> ties;  ///< (layer, whose weight it uses)
    RoleBuilder role;
    std::vector<StageBucket> buckets;
    std::vector<ChunkPassages> passages;  ///< [chunk]
    std::vector<OpId> first_forward;      ///< [chunk]
    std::vector<OpId> inputs;             ///< first passes over what was copied
    std::vector<InputOps> loads;          ///< of each micro-batch
    OpId last_compute;
    OpId sent;                         ///< what the next pass waits for, where it does
    std::vector<OpId> made, reduced;   ///< [bucket]; made: all that the chunk does
    std::vector<BucketSum> sums;       ///< [bucket], where gradients are compressed
    std::vector<OpId> gathered;        ///< [bucket]: the first of a step, of sharded parameters
    std::vector<OpId> updated;         ///< [bucket], where they are in front of the next forward
    std::optional<BucketOrder> turns;  ///< of sums, there
    /// (chunk, micro-batch) -> the sum that its inputs' gradients end with: what the gradients of parameters
    /// wait for that are made apart.
    std::map<std::pair<int32_t, int32_t>, OpId> summed;
  };

  /// Those axes that the stages' meshes have.
  uint32_t mask(const std::vector<GridAxis>& axes) const {
    uint32_t out = 0;
    for (const GridAxis axis : axes) out |= own_axis_[axis] < 32 ? 1U << own_axis_[axis] : 0;
    return out;
  }
  /// Over which a parameter, or an expert's, is replicated.
  uint32_t replicas_of(bool dealt) const { return mask(GridSplit::holding(dealt)); }
  /// Whether devices that share layers sum them too, since each has its own samples.
  bool own_samples(const StageBucket& b) const { return split_.samples && b.in_parts; }
  bool by_need() const { return split_.gradients.by_need && split_.holders(false) > 1; }
  bool sums(const StageBucket& b) const { return split_.holders(b.dealt) > 1 || own_samples(b); }
  /// Are its gradients scattered in every micro-batch?
  bool scatters_each(const StageBucket& b) const { return split_.scatters_each() && b.shards > 1; }
  uint32_t summed_over(const StageBucket& b) const {
    return replicas_of(b.dealt) | (own_samples(b) ? mask({kTensor}) : 0);
  }
  bool compresses() const {
    return split_.gradients.compression != Compression{} && split_.holders(false) > 1;
  }
  /// Over which it is sharded.
  uint32_t shards_of(bool dealt) const { return mask(split_.sharding_axes(dealt)); }
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
    const int64_t d = split_.shards(false), level = split_.sharding;
    const bool fewer = level > 0 && split_.size[kExpert] > 1;
    b_.program().compression = split_.gradients.compression;
    b_.shard({level >= 3 ? d : 1, split_.scatters_each() ? d : 1, d, fewer ? split_.shards(true) : 0,
              split_.sharding >= 3 && split_.keeps == Keeps::all, split_.gathers_once()});
    ranges_ = cut_model(*work_.graph, work_.layers, split_.shape.parts(), split_.cut);
    whole_ = std::make_unique<Graph>(work_.graph->slice(split_.slice()));
    messages_ = std::make_unique<StageMessages>(work_, *whole_, split_, ranges_, mask({kTensor}));
    copies_ = StageCopies(weight_copies(*work_.graph, ranges_, split_.shape));
  }

  void add_stage(int32_t s) {
    ModelSlice slice = split_.slice();
    for (int32_t c = 0; c < split_.shape.chunks; ++c)
      slice.ranges.push_back(ranges_[static_cast<std::size_t>(split_.shape.part(s, c))]);
    auto graph = std::make_unique<Graph>(whole_->slice(slice));
    const std::vector<LayerRange> chunks = slice.ranges;
    Workload work = make_workload(*graph, work_.batch, work_.precision, *work_.optimizer, work_.input,
                                  work_.recompute, work_.offload, work_.loading);
    const std::string name = split_.shape.stages > 1 ? fmt::format("stage {}", s) : "worker";
    RoleBuilder role = b_.role(name, mesh_);
    Role& r = b_.program().roles[role.index()];
    if (split_.shape.stages == 1) slice.ranges.clear();
    r.slice = slice;
    for (const GridAxis axis : split_.order) r.at.push_back(axis == kPipeline ? s : -1);
    const Bytes limit =
        split_.gradients.first_buckets && s > 0 ? BucketRule::kEndless : split_.gradients.bucket;
    auto buckets = stage_buckets(b_, role.index(), *graph, chunks,
                                 {.limit = limit,
                                  .element = split_.gradients.element,
                                  .partition = split_.gradients.partition,
                                  .by_tensor = split_.gradients.by_tensor,
                                  .by_unit = split_.sharding >= 3,
                                  .apart = split_.size[kExpert] > 1,
                                  .tied = copies_.on(s),
                                  .given = work_.buckets});
    for (StageBucket& bucket : buckets) {
      bucket.shards = split_.shards(bucket.dealt);
      bucket.gathered = split_.sharding >= 3 && bucket.shards > 1;
      bucket.kept = bucket.gathered && keeps_gathered(split_, *graph, bucket.layers, s);
    }
    stages_.push_back(Stage(role));
    Stage& stage = stages_.back();
    stage.index = s;
    stage.graph = std::move(graph);
    stage.work = std::move(work);
    stage.chunks = chunks;
    stage.buckets = std::move(buckets);
    for (uint32_t i = 0; i < stage.graph->layers().size(); ++i)
      if (const auto owner = stage.graph->tied_to(i)) stage.ties.push_back({i, *owner});
    stage.first_forward.resize(chunks.size());
    stage.made = stage.reduced = stage.gathered = stage.updated = std::vector<OpId>(stage.buckets.size());
    if (by_need()) stage.turns.emplace(order_on(stage.buckets, work_.order), stage.buckets.size());
    for (const StageBucket& b : stage.buckets)
      stage.sums.emplace_back(
          SumRule{compresses() ? split_.gradients.compression : Compression{}, false, "auto", summed_over(b),
                  split_.holders(false), Lane::reduce, 1, split_.shape.micro_batches - 1},
          *stage.graph, b_, b);
    for (int32_t c = 0; c < split_.shape.chunks; ++c) write_passages(stage, c);
  }

  void write_passages(Stage& stage, int32_t c) {
    const ChunkInput in{&stage.work,
                        stage.chunks[static_cast<std::size_t>(c)],
                        split_.shape.micro_batches,
                        split_.sharding >= 3 && split_.shards(false) > 1,
                        &stage.buckets,
                        split_.keeps == Keeps::all,
                        split_.gathers_once()};
    std::vector<Cut> cuts;
    for (std::size_t i = 0; i < stage.buckets.size(); ++i) {
      const StageBucket& b = stage.buckets[i];
      if (b.chunk == c && sums(b))
        cuts.push_back({b.layers.first, scatters_each(b) ? static_cast<int32_t>(i) : -1});
    }
    std::vector<uint32_t> needed;
    for (const StageBucket& b : stage.buckets) {
      if (by_need() && b.chunk == c) needed.push_back(b.layers.first);
    }
    stage.passages.push_back(passages_of(in, cuts, needed));
  }

  Bytes tied_gradients(const WeightHolder& holder) {
    const auto& buckets = stage(holder.stage).buckets;
    return std::find_if(buckets.begin(), buckets.end(),
                        [&](const StageBucket& b) { return b.tied && b.layers.first == holder.layer; })
        ->share_bytes();
  }
  Stage& stage(int32_t s) { return stages_[static_cast<std::size_t>(s)]; }

  void write(Stage& stage) {
    const std::vector<Slot> slots = split_.schedule->slots(stage.index, split_.shape);
    for (std::size_t i = 0; i < slots.size(); ++i) {
      Emission first = begin(stage, slots[i]);
      const bool paired = split_.overlaps && slots[i].what == Slot::What::backward && i + 1 < slots.size() &&
                          slots[i + 1].what == Slot::What::forward;
      if (paired) {
        Emission second = begin(stage, slots[++i]);
        interleave(stage, first, second);
        end(stage, first);
        end(stage, second);
        continue;
      }
      if (by_need() && first.passage == &stage.passages[static_cast<std::size_t>(first.slot.chunk)].first) {
        emit_updating(stage, first);
      } else if (compresses() && reduces(first.slot)) {
        while (!first.ended()) emit_turn(stage, first);
      } else {
        emit_whole(stage, first);
      }
      end(stage, first);
    }
    write_updates(stage);
    keep_prefetch(stage.role, stage.loads, work_.loading.prefetch);
  }

  Emission begin(Stage& stage, const Slot& slot) {
    return slot.what == Slot::What::forward ? begin_forward(stage, slot) : begin_backward(stage, slot);
  }
  void end(Stage& stage, const Emission& e) {
    if (e.slot.what == Slot::What::forward)
      end_forward(stage, e);
    else
      end_backward(stage, e);
  }

  /// Two passages of different micro-batches, changing from one to the other with each all-to-all: what one
  /// waits for is under the work of the other (Megatron-Core's overlap_moe_expert_parallel_comm).
  void interleave(Stage& stage, Emission& first, Emission& second) {
    for (Emission *now = &first, *other = &second; !now->ended() || !other->ended(); std::swap(now, other)) {
      while (!now->ended()) {
        const PassageStep& step = now->passage->steps[now->ops.size()];
        const bool exchanged = step.inside && step.collective == CollKind::all_to_all;
        emit_turn(stage, *now);
        if (exchanged) break;
      }
    }
  }

  /// A stage that reads the model's inputs loads its own, two micro-batches ahead on the device.
  OpId input(Stage& stage, const Slot& slot) {
    if (!work_.input || stage.index != 0 || slot.chunk != 0) return {};
    const InputOps ops = add_input(stage.role, work_, split_.size[kContext], slot.micro_batch);
    if (const std::size_t n = stage.inputs.size(); n >= 2) stage.role.op(ops.copy).after(stage.inputs[n - 2]);
    stage.loads.push_back(ops);
    return ops.ready;
  }

  Emission begin_forward(Stage& stage, const Slot& slot) {
    ChunkPassages& passages = stage.passages[static_cast<std::size_t>(slot.chunk)];
    const bool first = (split_.gathers_once() || by_need()) &&
                       !stage.first_forward[static_cast<std::size_t>(slot.chunk)].valid();
    Emission e{slot, first ? &passages.first : &passages.forward, input(stage, slot)};
    e.received = messages_->receive(stage.index, slot, false);
    e.sent = stage.sent;
    return e;
  }

  void end_forward(Stage& stage, const Emission& e) {
    OpId& begun = stage.first_forward[static_cast<std::size_t>(e.slot.chunk)];
    if (!begun.valid()) begun = e.first_compute;
    if (e.copied.valid()) stage.inputs.push_back(e.first_compute);
    send(stage, e, false);
  }

  void send(Stage& stage, const Emission& e, bool backward) {
    const OpId sent = messages_->send(stage.index, e.slot, e.done, backward);
    if (split_.waits) stage.sent = sent;
  }

  /// Whole backward, or the two halves of it. Gradients are reduced after those of the last micro-batch, or
  /// under ZeRO 2 and 3 after those of each.
  bool reduces(const Slot& slot) const {
    return slot.what != Slot::What::forward && slot.what != Slot::What::data &&
           (split_.scatters_each() || slot.micro_batch + 1 == split_.shape.micro_batches);
  }

  Emission begin_backward(Stage& stage, const Slot& slot) {
    ChunkPassages& passages = stage.passages[static_cast<std::size_t>(slot.chunk)];
    Emission e{slot, &passages.backward_of(slot.what, reduces(slot))};
    if (slot.what != Slot::What::weights)
      e.received = messages_->receive(stage.index, slot, true);
    else if (const auto sum = stage.summed.find({slot.chunk, slot.micro_batch}); sum != stage.summed.end())
      e.received = sum->second;
    e.sent = stage.sent;
    return e;
  }

  void end_backward(Stage& stage, const Emission& e) {
    const Slot& slot = e.slot;
    const auto& steps = e.passage->steps;
    if (slot.what == Slot::What::data && !steps.empty() && steps.back().kind == PassageStep::Kind::join)
      stage.summed[{slot.chunk, slot.micro_batch}] = e.at(static_cast<int32_t>(steps.size()) - 1);
    if (slot.what != Slot::What::weights) send(stage, e, true);
    if (!reduces(slot)) return;
    std::size_t reached = 0;
    for (std::size_t i = 0; i < stage.buckets.size(); ++i) {
      if (stage.buckets[i].chunk != slot.chunk) continue;
      stage.made[i] = e.last_compute;
      if (!sums(stage.buckets[i])) continue;
      const int32_t scatter = e.passage->scattered[reached], made = e.passage->reached[reached++];
      const OpId gradient = split_.gathers_once() || split_.gradients.late
                                ? e.last_compute
                                : e.at(scatter >= 0 ? scatter : made);
      if (by_need())
        stage.turns->made(static_cast<uint32_t>(i), gradient);
      else
        reduce(stage, i, gradient, slot);
    }
    if (by_need()) stage.turns->take([&](uint32_t i, OpId gradient) { reduce(stage, i, gradient, slot); });
  }

  /// A collective on a bucket, which is replicated over the axes.
  static OpHandle of_bucket(Stage& stage, const StageBucket& bucket, CollKind kind, uint32_t axes,
                            Bytes bytes, Payload of, const std::string& label) {
    return stage.role.collective(kind, axes, bytes, "auto", label).on(Lane::reduce).of(of, bucket.key);
  }

  /// Where nodes have a shard in common each micro-batch is summed within a node, and the sums of all of them
  /// between nodes once (MiCS, section 3.4), on a separate lane, as in FSDP, where no layer is shared.
  void reduce(Stage& stage, std::size_t i, OpId gradient, const Slot& slot) {
    if (compresses()) return;
    const StageBucket& bucket = stage.buckets[i];
    const bool scatters = bucket.shards > 1, last = slot.micro_batch + 1 == split_.shape.micro_batches;
    if (!scatters && !last) return;
    stage.reduced[i] = gradient;
    if (!scatters) stage.reduced[i] = stage.sums[i].begin(stage.role, gradient);
    if (scatters && !scatters_each(bucket))
      stage.reduced[i] = of_bucket(stage, bucket, CollKind::reduce_scatter, shards_of(bucket.dealt),
                                   bucket.bytes, Payload::gradients, "reduce-scatter " + bucket.name)
                             .after(gradient)
                             .micro(slot.micro_batch);
    if (!scatters || !last || split_.holders(bucket.dealt) == bucket.shards) return;
    const bool shared = split_.size[kTensor] * split_.size[kExpert] * split_.size[kContext] > 1;
    stage.reduced[i] =
        of_bucket(stage, bucket, CollKind::all_reduce, summed_over(bucket) & ~shards_of(bucket.dealt),
                  bucket.share_bytes(), Payload::shard, "all-reduce shard of " + bucket.name)
            .on(shared ? Lane::reduce : Lane::comm)
            .after(stage.reduced[i])
            .micro(slot.micro_batch);
  }

  /// All of a passage, one op after another: a call of the routine that its ops become when it is written
  /// for the first time.
  void emit_whole(Stage& stage, Emission& e) {
    Passage& passage = *e.passage;
    if (passage.steps.empty()) return;
    e.first = passage.routine < 0
                  ? write(stage, e)
                  : stage.role.call(static_cast<uint32_t>(passage.routine), e.slot.micro_batch);
    for (const uint32_t gather : passage.gathers_behind)
      stage.role.op({e.first.index + gather}).after(stage.last_compute);
    for (const uint32_t step : passage.begins)
      stage.role.op({e.first.index + step}).after({e.copied, e.received, e.sent});
    for (std::size_t i = 0; i < passage.steps.size() && reduces(e.slot); ++i)
      wait_for_reduction(stage, passage.steps[i], stage.role.op(e.at(static_cast<int32_t>(i))));
    e.done = e.at(passage.done);
    e.first_compute = e.at(passage.first_compute);
    e.last_compute = e.at(passage.last_compute);
    if (e.last_compute.valid()) stage.last_compute = e.last_compute;
  }

  /// The same for the first time, without what it waits for outside. Returns the first op.
  OpId write(Stage& stage, Emission& e) {
    Passage& passage = *e.passage;
    for (const PassageStep& step : passage.steps) {
      const auto i = static_cast<uint32_t>(e.ops.size());
      const bool gather = step.kind == PassageStep::Kind::gather;
      if (gather && passage.last_compute < 0) passage.gathers_behind.push_back(i);
      if (!step.of_bucket() && passage.done < 0) passage.begins.push_back(i);
      OpHandle op = emit_step(stage, e);
      if (gather) op.after(e.last_compute);
      if (e.gives_result(step)) passage.done = static_cast<int32_t>(i);
      if (step.kind != PassageStep::Kind::compute) continue;
      if (passage.first_compute < 0) passage.first_compute = static_cast<int32_t>(i);
      passage.last_compute = static_cast<int32_t>(i);
      e.last_compute = op;
    }
    const OpId first = e.ops.front();
    e.ops.clear();
    passage.routine = static_cast<int32_t>(stage.role.fold(first));
    return first;
  }

  /// The next op of one of two passages that alternate.
  void emit_turn(Stage& stage, Emission& e) {
    const PassageStep& step = e.passage->steps[e.ops.size()];
    OpHandle op = emit_step(stage, e);
    if (step.kind == PassageStep::Kind::gather)
      op.after(stage.last_compute);
    else if (!step.of_bucket() && !e.done.valid())
      op.after({e.copied, e.received, e.sent});
    wait_for_reduction(stage, step, op);
    if (e.gives_result(step)) e.done = op;
    if (step.kind != PassageStep::Kind::compute) return;
    if (!e.first_compute.valid()) e.first_compute = op;
    stage.last_compute = e.last_compute = op;
    if (compresses() && reduces(e.slot)) sum_reached(stage.role, stage.buckets, stage.sums, e, stage.reduced);
  }

  /// All of a chunk's first forward, with the updates of its parameters: each in front of what reads them.
  void emit_updating(Stage& stage, Emission& e) {
    const auto update_before = [&](uint32_t layer) {
      for (std::size_t i = stage.buckets.size(); i-- > 0;) {
        const StageBucket& b = stage.buckets[i];
        if (b.chunk == e.slot.chunk && b.layers.first < layer && !stage.updated[i].valid())
          stage.updated[i] = update(stage, i);
      }
    };
    while (!e.ended()) {
      const PassageStep& step = e.passage->steps[e.ops.size()];
      if (step.kind == PassageStep::Kind::compute) update_before(step.layers.end());
      emit_turn(stage, e);
    }
    update_before(UINT32_MAX);
  }

  /// The op of the passage's next step, which waits for what it needs of the same passage.
  OpHandle emit_step(Stage& stage, Emission& e) {
    PassageStep& step = e.passage->steps[e.ops.size()];
    if (step.label.empty()) step.label = label_of(*stage.graph, step);
    OpHandle op = step.kind == PassageStep::Kind::compute ? compute(stage, step) : collective(stage, step);
    op.micro(e.slot.micro_batch);
    for (const int32_t on : {step.after, step.gathered}) op.after(e.at(on));
    e.ops.push_back(op);
    return op;
  }

  /// Gradients that are still being reduced are not written over, nor those of another layer's weight.
  static void wait_for_reduction(const Stage& stage, const PassageStep& step, OpHandle op) {
    if (step.kind != PassageStep::Kind::compute || step.pass != Pass::backward_weights || step.again) return;
    const auto holds = [](LayerRange r, uint32_t layer) { return layer >= r.first && layer < r.end(); };
    for (std::size_t i = 0; i < stage.buckets.size(); ++i) {
      const LayerRange of = stage.buckets[i].layers;
      bool writes = of.first < step.layers.end() && step.layers.first < of.end();
      for (const auto& [user, owner] : stage.ties) writes |= holds(step.layers, user) && holds(of, owner);
      if (writes) op.after(stage.reduced[i]);
    }
  }

  OpHandle compute(Stage& stage, PassageStep& step) {
    if (step.task == UINT32_MAX)
      step.task = b_.task(
          {step.layers.first, step.layers.layers, step.pass, step.kernels, step.parts, {}, step.again});
    return stage.role.again(step.task, step.label);
  }

  /// Gathers its parameters or scatters its gradients.
  OpHandle on_bucket(Stage& stage, const PassageStep& step) {
    const StageBucket& bucket = stage.buckets[step.bucket];
    const bool gathers = step.kind == PassageStep::Kind::gather;
    const Bytes bytes = gathers ? step.bytes : bucket.bytes;
    const OpHandle op = of_bucket(stage, bucket, step.collective, shards_of(bucket.dealt), bytes,
                                  gathers ? Payload::parameters : Payload::gradients, step.label);
    if (gathers && !stage.gathered[step.bucket].valid()) stage.gathered[step.bucket] = op;
    return op;
  }

  OpHandle collective(Stage& stage, const PassageStep& step) {
    if (step.of_bucket()) return on_bucket(stage, step);
    if (step.inside) {
      const bool relayed = split_.relays && step.collective == CollKind::all_to_all;
      const std::string way = relayed ? fmt::format("deepep/{}/{}", step.active, step.count) : "auto";
      return stage.role.collective(step.collective, partners(step.collective), step.bytes, way, step.label)
          .of(Payload::exchanged, step.layers.first);
    }
    return stage.role.collective(step.collective, mask({kTensor}), step.bytes, "auto", step.label)
        .of(step.gradients ? Payload::activation_gradients : Payload::activations, step.layers.first);
  }

  /// Who exchanges in the middle of a layer's pass.
  uint32_t partners(CollKind kind) const {
    if (kind == CollKind::shift) return mask({kContext});
    if (kind != CollKind::all_to_all) return mask({kTensor});
    return split_.whole_experts ? mask({kExpert, kTensor}) : mask({kExpert});
  }

  /// Of each replica's share, when nothing else is sent or received any more.
  void sum_copies(Stage& stage) {
    for (std::size_t i = 0; i < stage.buckets.size(); ++i) {
      const StageBucket& bucket = stage.buckets[i];
      if (bucket.tied)
        stage.reduced[i] = copies_.sum(stage.role, {stage.index, bucket.layers.first}, bucket.name,
                                       split_.holders(false) > 1 ? stage.reduced[i] : stage.made[i]);
    }
  }

  /// Gradients that each of the devices that share layers made of its part of the sequence are summed over
  /// them, all together, after what is summed over the replicas (Megatron-Core, finalize_model_grads).
  void sum_over_sequence(Stage& stage) {
    int64_t elements = 0;
    std::vector<std::size_t> of;
    for (std::size_t i = 0; i < stage.buckets.size(); ++i) {
      const int64_t before = elements;
      elements += elements_in_parts(stage.buckets[i]);
      if (elements > before) of.push_back(i);
    }
    if (of.empty() || split_.samples) return;
    OpHandle sum =
        stage.role
            .collective(CollKind::all_reduce, mask({kTensor}), Bytes{split_.gradients.element} * elements,
                        "auto", "sum gradients of parts of the sequence")
            .on(Lane::reduce)
            .of(Payload::sequence_gradients, stage.buckets.front().key)
            .after(stage.last_compute);
    for (const std::size_t i : of) sum.after(stage.reduced[i]);
    for (const std::size_t i : of) stage.reduced[i] = sum;
  }

  OpId update(Stage& stage, std::size_t i) {
    const StageBucket& bucket = stage.buckets[i];
    std::vector<Kernel> kernels;
    for (const TensorPart& t : bucket.tensors)
      append_update(kernels, *work_.optimizer, *t.of, bucket.share_of(t.elements));
    OpId summed = stage.reduced[i];
    if (work_.offload.optimizer)
      summed = stage.role.offload(bucket.key, bucket.share_bytes(), "offload " + bucket.name)
                   .after(summed.valid() ? summed : stage.made[i]);
    return add_update(stage.role, work_, bucket, bucket.shards > 1 ? Payload::shard : Payload::parameters,
                      std::move(kernels), "update", summed);
  }

  void next_forward_after(Stage& stage, const StageBucket& bucket, OpId op) {
    const OpId next = stage.first_forward[static_cast<std::size_t>(bucket.chunk)];
    if (next.valid()) stage.role.op(next).after_last(op);
  }

  /// One step of the optimiser, where optimiser state is sharded on each replica's share, which is gathered
  /// again; where parameters are sharded too, when the next step's passes need it.
  void write_updates(Stage& stage) {
    finish_sums(stage.role, stage.sums, stage.reduced);
    sum_over_sequence(stage);
    sum_copies(stage);
    for (std::size_t i = 0; i < stage.buckets.size() && by_need(); ++i)
      stage.role.op(stage.updated[i]).after_last(stage.reduced[i]);
    if (by_need()) return;
    std::vector<OpId> updated(stage.buckets.size());
    for (const bool tied : {false, true}) {  // the last gradients come last
      for (std::size_t i = 0; i < stage.buckets.size(); ++i) {
        if (stage.buckets[i].tied == tied) updated[i] = update(stage, i);
      }
    }
    const std::vector<OpId> alone = updated;
    const bool averages = split_.outer.every > 0;
    if (averages)
      average_stage(stage.role, stage.buckets, split_.outer, mask({kWorker}),
                    split_.outer.state ? 1 + work_.optimizer->state : 1, updated);
    for (std::size_t i = 0; i < stage.buckets.size(); ++i) {
      const StageBucket& b = stage.buckets[i];
      const Bytes up = Bytes{element_bytes(work_.precision)} * b.share_of(b.elements);
      if (work_.offload.optimizer) {
        updated[i] = stage.role.reload(b.key, up, "reload " + b.name).after(updated[i]);
        next_forward_after(stage, b, updated[i]);
      }
      if (stage.gathered[i].valid()) {
        stage.role.op(stage.gathered[i]).after_last(updated[i]);
        if (averages) stage.role.op(stage.gathered[i]).after_last(alone[i]);
      } else if (b.shards == 1 && averages) {
        next_forward_after(stage, b, updated[i]);
      }
    }
    for (std::size_t i = 0; i < stage.buckets.size() && split_.sharding < 3; ++i) {
      const StageBucket& bucket = stage.buckets[i];
      if (bucket.shards == 1) continue;
      const Bytes bytes = Bytes{element_bytes(work_.precision)} * bucket.elements;
      const OpId gathered = of_bucket(stage, bucket, CollKind::all_gather, shards_of(bucket.dealt), bytes,
                                      Payload::parameters, "all-gather " + bucket.name)
                                .after(updated[i])
                                .after(averages ? alone[i] : OpId{});
      next_forward_after(stage, bucket, gathered);
    }
  }

  const Workload& work_;
  const GridSplit& split_;
  Builder b_;
  Mesh mesh_;
  std::array<uint32_t, kGridAxes> own_axis_{32, 32, 32, 32, 32, 32, 32};  ///< of a stage's mesh; 32: has none
  std::vector<LayerRange> ranges_;                                        ///< [part]
  std::unique_ptr<Graph> whole_;                                          ///< all layers, shared
  std::vector<Stage> stages_;
  std::unique_ptr<StageMessages> messages_;
  StageCopies copies_;
};

}  // namespace

Program split_program(const Workload& work, const GridSplit& split) { return Hybrid(work, split).run(); }

}  // namespace tandem::schemes
