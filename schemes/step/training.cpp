// SPDX-License-Identifier: Apache-2.0
#include "schemes/step/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "schemes/step/input_stages.h"

namespace tandem::schemes {

namespace {

void append(std::vector<Kernel>& to, const std::vector<Kernel>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

/// The layer's sums of statistics in a pass, of which `before` kernels of the list come before its own.
std::vector<StatisticsSum> statistics_sums(const std::vector<Exchange>& exchanges, uint32_t layer,
                                           std::size_t before, Precision precision) {
  std::vector<StatisticsSum> out;
  for (const Exchange& e : exchanges)
    out.push_back({layer, before + e.after, Bytes{element_bytes(precision)} * e.elements});
  return out;
}

/// `first` in front of `then`, whose passes' kernels follow `kernels` others now.
std::vector<StatisticsSum> joined(std::vector<StatisticsSum> first, std::vector<StatisticsSum> then,
                                  std::size_t kernels) {
  for (StatisticsSum& s : then) s.after += kernels;
  first.insert(first.end(), then.begin(), then.end());
  return first;
}

/// Does another block begin, or what lies between blocks, where these run forward again?
bool begins_block(const Workload& work, std::size_t layer) {
  const auto& layers = work.graph->layers();
  return work.recompute.blocks && layer > 0 && block_of(layers[layer]) != block_of(layers[layer - 1]);
}

/// `count` neighbours become one, within a block that runs forward again; the last may be shorter.
std::vector<Segment> merged(std::vector<Segment> segments, std::size_t count, const Workload& work) {
  std::vector<Segment> out;
  std::size_t joined_so_far = 0;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    if (joined_so_far % count == 0 || begins_block(work, segments[i].layer)) {
      out.push_back(std::move(segments[i]));
      joined_so_far = 1;
      continue;
    }
    ++joined_so_far;
    Segment &all = out.back(), &next = segments[i];
    all.layers += next.layers;
    all.forward_sums = joined(all.forward_sums, next.forward_sums, all.forward.size());
    append(all.forward, next.forward);
    all.backward_sums = joined(next.backward_sums, all.backward_sums, next.backward.size());
    append(next.backward, all.backward);
    all.backward = std::move(next.backward);  // backward runs from the last layer to the first
  }
  return out;
}

}  // namespace

void append_update(std::vector<Kernel>& to, const Optimizer& optimizer, int64_t elements, int64_t count) {
  if (!optimizer.updates()) return;
  to.push_back(update_kernel(optimizer, elements));
  to.back().repeat = count;
}

void append_update(std::vector<Kernel>& to, const Optimizer& optimizer, const Parameter& tensor,
                   int64_t elements) {
  if (!optimizer.orthogonal || tensor.hidden == 0) return append_update(to, optimizer, elements, 1);
  for (const Kernel& k : update_kernels(optimizer, tensor))
    to.push_back(elements < tensor.elements ? part_of_update(k, elements, tensor.elements) : k);
}

OpHandle add_update(RoleBuilder& role, const Workload& work, const SummedBucket& bucket, Payload of,
                    std::vector<Kernel> kernels, std::string_view label, OpId after) {
  return role
      .compute({bucket.layers.first, bucket.layers.layers, Pass::update, std::move(kernels)},
               fmt::format("{} {}", work.optimizer->updates() ? label : "await", bucket.name))
      .on(work.offload.optimizer ? Lane::host : Lane::compute)
      .of(of, bucket.key)
      .after(after);
}

Kernel accumulation_kernel(int64_t elements, int64_t micro_batches) {
  Kernel k;
  k.kind = KernelKind::elementwise;
  k.pass = Pass::backward_weights;
  k.shape = {elements, 1};
  const int64_t added = elements - elements / micro_batches;
  k.flops = {added};
  k.read = Bytes{4} * added;  // the sum so far; the gradient was just written and is still in a cache
  k.written = Bytes{4} * added;
  k.sums = true;
  return k;
}

Kernel averaging_kernel(const Averaging& rule, int64_t elements) {
  const bool elastic = rule.rule == Averaging::Rule::elastic, own = rule.rate == 0;  // the anchor stays
  // Parameters, mean and anchor, and where there is one the velocity.
  const int64_t velocity = !elastic && rule.weight != 0 ? 1 : 0;
  Kernel k;
  k.kind = KernelKind::elementwise;
  k.pass = Pass::update;
  k.shape = {elements, 1};
  k.flops = Flops{own ? 3 : 5 + velocity} * elements;
  k.read = Bytes{4} * elements * ((elastic && !own ? 3 : 2) + velocity);
  k.written = Bytes{4} * elements * ((own ? 1 : 2) + velocity);
  return k;
}

Training::Training(RoleBuilder& role, const Workload& work, const BucketRule& rule, Accumulation accumulation)
    : role_(role), work_(work), accumulation_(accumulation), element_(rule.element) {
  role_.builder().samples_per_iteration(work_.batch);
  role_.builder().micro_batches(accumulation_.micro_batches);
  split_into_segments();
  fill_buckets(rule);
  find_blocks_again();
  if (work_.offload.activations) find_kept_inputs();
}

void Training::split_into_segments() {
  const auto& layers = work_.graph->layers();
  bool has_parameters = true;  // of the segment being filled
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const bool learned = !layers[i].parameters.empty();
    if (segments_.empty() || (learned && has_parameters) || begins_block(work_, i)) {
      segments_.push_back({static_cast<uint32_t>(i), 0, layers[i].name, {}, {}});
      has_parameters = false;
    }
    Segment& segment = segments_.back();
    if (learned && !has_parameters) segment.name = layers[i].name;
    has_parameters = has_parameters || learned;
    ++segment.layers;
    const Lowered& lowered = work_.layers[i];
    const auto sums_of = [&](const std::vector<Exchange>& exchanges, std::size_t before) {
      return statistics_sums(exchanges, static_cast<uint32_t>(i), before, work_.precision);
    };
    segment.forward_sums =
        joined(segment.forward_sums, sums_of(lowered.forward_exchanges, 0), segment.forward.size());
    append(segment.forward, lowered.forward);
    std::vector<Kernel> backward;
    append(backward, work_.again_alone(static_cast<uint32_t>(i)));
    const auto sums = sums_of(lowered.backward_exchanges, backward.size());
    append(backward, lowered.backward_data);
    append(backward, lowered.backward_weights);
    if (accumulation_.micro_batches > 1 && !accumulation_.of_shards && !sums_on_host()) {
      for (const Parameter& p : layers[i].parameters)
        backward.push_back(accumulation_kernel(p.elements, accumulation_.micro_batches));
    }
    segment.backward_sums = joined(sums, segment.backward_sums, backward.size());
    segment.backward.insert(segment.backward.begin(), backward.begin(), backward.end());
  }
  if (segments_.size() > kMostSegments) {
    const std::size_t each = (segments_.size() + kMostSegments - 1) / kMostSegments;
    segments_ = merged(std::move(segments_), each, work_);
  }
}

void Training::find_blocks_again() {
  const auto& layers = work_.graph->layers();
  again_.resize(segments_.size());
  for (const LayerRange& block :
       blocks_again(work_.recompute, *work_.graph, {0, static_cast<uint32_t>(layers.size())})) {
    std::size_t s = segments_.size() - 1;
    while (s > 0 && (segments_[s].layer >= block.end() ||
                     (segments_[s].backward.empty() && segments_[s].layer > block.first)))
      --s;
    again_[s].push_back(block);
  }
}

/// In front of the backward pass of the block's last segment.
OpId Training::run_again(uint32_t segment) {
  OpId first;
  for (std::size_t k = again_[segment].size(); k-- > 0;) {
    const LayerRange block = again_[segment][k];
    Task task{block.first, block.layers, Pass::backward_weights, {}};
    task.again = true;
    for (uint32_t i = block.first; i < block.end(); ++i) append(task.kernels, work_.again(i));
    const std::string name(block_of(work_.graph->layers()[block.first]));
    const OpId op = role_.compute(std::move(task), "again " + name);
    if (!first.valid()) first = op;
  }
  return first;
}

uint32_t Training::reads_from(uint32_t segment) const {
  uint32_t lowest = segment;
  for (const LayerRange& block : again_[segment]) {
    while (lowest > 0 && segments_[lowest].layer > block.first) --lowest;
  }
  return lowest;
}

void Training::fill_buckets(const BucketRule& rule) {
  const Graph& graph = *work_.graph;
  const auto& layers = graph.layers();
  const bool by_block = rule.by_block && has_blocks();
  const auto full = [&](int64_t) {
    const GradientBucket& b = buckets_.back();
    const std::size_t i = buckets_.size() - 1;
    if (!work_.buckets.empty()) return b.elements >= (i < work_.buckets.size() ? work_.buckets[i] : 1);
    return !by_block && b.bytes + b.frozen >= (i == 0 ? rule.first : rule.rest);
  };
  BucketFiller filler(buckets_, rule.element, rule.partition.n / rule.element);
  bool thin = true;  // nothing but vectors so far: they go with the neighbouring block
  for (const TensorPart& t : tensors_of(graph, {0, static_cast<uint32_t>(layers.size())}, rule.frozen)) {
    const std::string_view block = block_of(layers[t.layer]);
    if (filler.open() && by_block && !thin && block != block_of(layers[buckets_.back().layers.first]))
      filler.close();
    thin = (thin || !filler.open()) && block.empty() && t.of != nullptr && t.of->rows == 0;
    filler.add(t, full);
  }
  GradientBucket rest;
  if (filler.open() && buckets_.back().elements == 0) {
    rest = buckets_.back();
    buckets_.pop_back();
  }
  for (GradientBucket& b : buckets_) {
    b.key = role_.builder().bucket(b.elements);
    b.name = range_name(graph, b.layers);
    b.segment = segment_of(b.layers.first);
    std::map<int64_t, int64_t> sizes;  // elements -> tensors
    for (const TensorPart& t : b.tensors) {
      if (t.of != nullptr && t.of->hidden > 0 && work_.optimizer->orthogonal)
        append_update(b.update, *work_.optimizer, *t.of, t.elements);
      else if (t.elements > 0)
        ++sizes[t.elements];
    }
    for (const auto& [elements, count] : sizes) append_update(b.update, *work_.optimizer, elements, count);
  }
  if (rest.frozen.n == 0 || buckets_.empty()) return;
  // What is left stays as it is: it is gathered with the bucket before.
  GradientBucket& b = buckets_.back();
  b.layers = {rest.layers.first, b.layers.end() - rest.layers.first};
  b.segment = segment_of(rest.layers.first);
  b.frozen += rest.frozen;
}

Bytes Training::parameter_bytes() const { return Bytes{element_} * work_.graph->parameter_elements(); }

/// Where workers meet in the middle of a layer, the ops on both sides cover that layer: forward goes up from
/// there, backward down.
Training::Passed Training::pass(const Segment& segment, bool forward) {
  const auto& kernels = forward ? segment.forward : segment.backward;
  const auto& sums = forward ? segment.forward_sums : segment.backward_sums;
  const std::string label = fmt::format("{} {}", forward ? "forward" : "backward", segment.name);
  uint32_t begin = segment.layer, end = segment.layer + segment.layers;
  std::size_t done = 0;  // kernels
  Passed out;
  OpId met;
  for (std::size_t k = 0; k <= sums.size(); ++k) {
    const bool last = k == sums.size();
    const uint32_t from = forward || last ? begin : sums[k].layer,
                   to = !forward || last ? end : sums[k].layer + 1;
    const std::size_t until = last ? kernels.size() : sums[k].after;
    Task task{from, to - from, forward ? Pass::forward : Pass::backward_weights, {}};
    task.kernels.assign(kernels.begin() + static_cast<std::ptrdiff_t>(done),
                        kernels.begin() + static_cast<std::ptrdiff_t>(until));
    out.last = role_.compute(std::move(task), label).after(met);
    if (k == 0) out.first = out.last;
    if (last) break;
    met = sum_statistics(sums[k], out.last);
    done = until;
    (forward ? begin : end) = forward ? sums[k].layer : sums[k].layer + 1;
  }
  return out;
}

OpId Training::sum_statistics(const StatisticsSum& sum, OpId made) {
  const Mesh& mesh = role_.builder().program().roles[role_.index()].mesh;
  return role_
      .collective(CollKind::all_reduce, all_axes(mesh), sum.bytes, "auto",
                  "sum statistics of " + work_.graph->layers()[sum.layer].name)
      .of(Payload::exchanged, sum.layer)
      .after(made);
}

void Training::forward(const Before& before) {
  InputOps input;
  if (work_.input) input = add_input(role_, work_);
  for (uint32_t i = 0; i < segments_.size(); ++i) {
    const OpId needed = before(i);
    const Passed passed = pass(segments_[i], true);
    role_.op(passed.first).after(needed);
    forward_.push_back(passed.first);
    forward_ends_.push_back(passed.last);
    offload_inputs(i);
  }
  if (!input.ready.valid()) return;
  // Two batches are in flight: the buffer of iteration i - 2 is free once its first layers have read it.
  role_.op(first_forward()).after(input.ready);
  role_.op(input.copy).after_last(first_forward(), 2);
  keep_prefetch(role_, {input}, work_.loading.prefetch);
}

void Training::backward(const Ready& ready, OpId start, const Before& before) {
  std::size_t next = 0;
  backward_.resize(segments_.size());
  for (std::size_t s = segments_.size(); s-- > 0;) {
    if (!segments_[s].backward.empty()) {
      const OpId needed = before(static_cast<uint32_t>(s));
      const OpId kept = reload_inputs(static_cast<uint32_t>(s), last_backward_);
      const OpId again = run_again(static_cast<uint32_t>(s));
      const Passed passed = pass(segments_[s], false);
      role_.op(again.valid() ? again : passed.first).after(start).after(needed).after(kept);
      backward_[s] = passed.first;
      last_backward_ = passed.last;
      start = {};
    }
    for (; next < buckets_.size() && buckets_[next].segment == s; ++next) {
      made_.push_back(last_backward_);
      ready(buckets_[next], last_backward_);
    }
  }
}

OpHandle Training::update(const GradientBucket& bucket, OpId sum) {
  return update(bucket, "update", bucket.update, bucket.elements, sum);
}

OpHandle Training::update_shard(const GradientBucket& bucket, int64_t elements, std::string_view label,
                                OpId sum) {
  std::vector<Kernel> kernels;
  if (work_.optimizer->orthogonal)  // whole matrices are dealt out: each device has as many on average
    for (const Kernel& k : bucket.update) kernels.push_back(part_of_update(k, elements, bucket.elements));
  else
    append_update(kernels, *work_.optimizer, elements, 1);
  return update(bucket, label, std::move(kernels), elements, sum);
}

OpHandle Training::update(const GradientBucket& bucket, std::string_view label, std::vector<Kernel> kernels,
                          int64_t elements, OpId sum) {
  const OpId awaited = work_.offload.optimizer ? to_host(bucket, elements, sum) : sum;
  return add_update(role_, work_, bucket, Payload::parameters, std::move(kernels), label, awaited)
      .every(every());
}

OpHandle Training::average(const GradientBucket& bucket, const Averaging& rule, OpId mean) {
  Task task{
      bucket.layers.first, bucket.layers.layers, Pass::update, {averaging_kernel(rule, bucket.elements)}};
  task.averaging = rule;
  return role_.compute(std::move(task), "average " + bucket.name)
      .of(Payload::parameters, bucket.key)
      .after(mean);
}

/// Gradients go down once a step; or in every micro-batch, the next of which then waits for its room, both on
/// the device and on the host, where what arrives is added to what came before.
OpId Training::to_host(const GradientBucket& bucket, int64_t elements, OpId sum) {
  const bool each = sums_on_host();
  const OpId down =
      role_.offload(bucket.key, Bytes{element_} * elements, "offload " + bucket.name)
          .every(each ? 1 : every())
          .after(sum.valid() ? sum : made_[static_cast<std::size_t>(&bucket - buckets_.data())]);
  if (!each) return down;
  next_backward_after(bucket, down);
  const OpId added = role_
                         .compute({bucket.layers.first,
                                   bucket.layers.layers,
                                   Pass::backward_weights,
                                   {accumulation_kernel(elements, accumulation_.micro_batches)}},
                                  "add " + bucket.name)
                         .on(Lane::host)
                         .of(Payload::gradients, bucket.key)
                         .after(down);
  role_.op(down).after_last(added);
  return added;
}

OpHandle Training::reload(const GradientBucket& bucket, int64_t devices) {
  const Bytes whole = Bytes{element_bytes(work_.precision)} * bucket.elements + bucket.frozen;
  const Bytes share = bucket.frozen.n > 0 ? Bytes{(whole.n + devices - 1) / devices}
                                          : Bytes{element_bytes(work_.precision)} *
                                                ((bucket.elements + devices - 1) / devices);
  return role_.reload(bucket.key, share, "reload " + bucket.name);
}

std::vector<OpId> Training::reload_all(const std::vector<OpId>& updated, int64_t devices) {
  if (!work_.offload.optimizer) return updated;
  std::vector<OpId> out;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    out.push_back(reload(buckets_[i], devices).every(every()).after(updated[i]));
    next_forward_after(buckets_[i], out.back());
  }
  return out;
}

/// Outputs that layers of a block read from outside of it.
void Training::find_kept_inputs() {
  const auto& layers = work_.graph->layers();
  std::map<std::string_view, uint32_t> last;  // layer of a block
  for (uint32_t i = 0; i < layers.size(); ++i) last[block_of(layers[i])] = i;
  std::set<std::pair<std::string_view, uint32_t>> known;
  for (uint32_t i = 0; i < layers.size(); ++i) {
    const std::string_view block = block_of(layers[i]);
    for (const uint32_t from : layers[i].inputs) {
      if (block.empty() || layers[from].type == nullptr || block_of(layers[from]) == block) continue;
      if (!known.emplace(block, from).second) continue;
      const Bytes bytes = Bytes{elements(layers[from].output)} * work_.batch * element_bytes(work_.precision);
      kept_inputs_.push_back({from, segment_of(from), segment_of(last[block]), bytes, std::string(block)});
    }
  }
}

/// Those that the segment has made.
void Training::offload_inputs(uint32_t segment) {
  for (KeptInput& kept : kept_inputs_) {
    if (kept.made != segment) continue;
    kept.down = role_.copy(CopyKind::device_to_host, kept.bytes, "offload input of " + kept.name)
                    .on(Lane::offload)
                    .of(Payload::activations, kept.layer)
                    .after(forward_ends_[segment]);
  }
}

/// Those that the segment's backward is the first to read, when what comes before it is done (torchtune
/// brings a tensor up when it is asked for).
OpId Training::reload_inputs(uint32_t segment, OpId behind) {
  OpId last;
  for (std::size_t i = kept_inputs_.size(); i-- > 0;) {
    const KeptInput& kept = kept_inputs_[i];
    if (kept.read != segment) continue;
    last = role_.copy(CopyKind::host_to_device, kept.bytes, "reload input of " + kept.name)
               .on(Lane::reload)
               .of(Payload::activations, kept.layer)
               .after(kept.down)
               .after(behind.valid() ? behind : last_forward());
  }
  return last;
}

void Training::next_forward_after(const GradientBucket& bucket, OpId op) {
  // Lanes are in order: what the lowest segment waits for, all later segments have waited for.
  role_.op(forward_[bucket.segment]).after_last(op, 1);
}

void Training::next_forward_after(OpId op) { role_.op(first_forward()).after_last(op, 1); }

void Training::next_backward_after(const GradientBucket& bucket, OpId op) {
  // Backward goes down, so that the highest segment with a layer of the bucket comes first, or with one that
  // uses a weight of it and so makes gradients of that.
  uint32_t segment = last_segment(bucket);
  for (uint32_t user = 0; user < work_.graph->layers().size(); ++user) {
    const auto owner = work_.graph->tied_to(user);
    if (owner && *owner >= bucket.layers.first && *owner < bucket.layers.end())
      segment = std::max(segment, segment_of(user));
  }
  while (segment > bucket.segment && !backward_[segment].valid()) --segment;
  role_.op(backward_[segment]).after_last(op, 1);
}

uint32_t Training::segment_of(uint32_t layer) const {
  const auto at = std::find_if(segments_.begin(), segments_.end(),
                               [&](const Segment& s) { return layer < s.layer + s.layers; });
  return static_cast<uint32_t>(at - segments_.begin());
}

uint32_t Training::last_segment(const GradientBucket& bucket) const {
  uint32_t segment = bucket.segment;
  while (segment + 1 < segments_.size() && segments_[segment + 1].layer < bucket.layers.end()) ++segment;
  return segment;
}

bool Training::has_blocks() const {
  const auto& layers = work_.graph->layers();
  return std::any_of(layers.begin(), layers.end(), [](const Layer& l) { return !block_of(l).empty(); });
}

bool Training::in_root(const GradientBucket& bucket) const {
  const auto& layers = work_.graph->layers();
  for (uint32_t i = bucket.layers.first; i < bucket.layers.end(); ++i) {
    if (!block_of(layers[i]).empty()) return false;
  }
  return true;
}

Mesh worker_mesh(const Cluster& cluster) {
  const auto size = [](int64_t n) { return static_cast<int32_t>(std::min<int64_t>(n, INT32_MAX)); };
  if (cluster.per_node > 0 && cluster.nodes * cluster.per_node == cluster.devices) {
    return {{{"node", size(cluster.nodes)}, {"local", size(cluster.per_node)}}};
  }
  return {{{"device", size(cluster.devices)}}};
}

Program train_alone(const Workload& work, const Cluster& cluster, const BucketRule& rule,
                    int64_t micro_batches) {
  Builder b;
  RoleBuilder w = b.role("worker", worker_mesh(cluster));
  Training t(w, work, rule, {micro_batches, false});
  t.forward();
  t.backward();
  std::vector<OpId> updated;
  for (const GradientBucket& bucket : t.buckets()) updated.push_back(t.update(bucket));
  t.reload_all(updated);
  return b.finish();
}

uint32_t all_axes(const Mesh& mesh) { return (1U << mesh.axes.size()) - 1; }

int64_t gradient_bytes(const Options& options, Precision precision) {
  const std::string& format = options.text("gradients");
  return format == "auto" ? element_bytes(precision) : format == "fp16" ? 2 : 4;
}

}  // namespace tandem::schemes
