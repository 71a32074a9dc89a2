// SPDX-License-Identifier: Apache-2.0
#include "sim/memory/memory_walk.h"

#include "models/autocast.h"

#include <algorithm>
#include <map>

namespace tandem::sim {

namespace {

using Weights = MemoryHabits::Weights;
using Loss = MemoryHabits::Loss;
using Logits = MemoryHabits::Logits;
using Life = OwnTensor::Life;

}  // namespace

Walk::Walk(const WalkInput& in)
    : in_(in),
      work_(*in.work),
      layers_(work_.graph->layers()),
      sharding_(in.program->sharding),
      offload_(in.work->offload),
      half_(element_bytes(work_.precision) < 4),
      weights_(weights_of(in.habits, *in.program, in.work->offload)),
      half_updates_(half_ && in.habits.weights == Weights::half),
      t_(in.limit),
      node_(layers_),
      there_(layers_.size()) {
  read_formats();
  read_units();
  read_owners();
  passes_ = chunk_passes(*in_.program, in_.role, static_cast<uint32_t>(layers_.size()));
  fresh_ = {node_, units_, {}};
}

Walk::Nodes::Nodes(const std::vector<Layer>& layers) {
  uint32_t end = 0;
  begin_ = static_cast<uint32_t>(layers.size());
  for (uint32_t i = 0; i < layers.size(); ++i) {
    if (layers[i].type == nullptr) continue;
    begin_ = std::min(begin_, i);
    end = i + 1;
    for (const uint32_t from : layers[i].inputs) begin_ = std::min(begin_, from);
  }
  all_.resize(end - std::min(begin_, end));
}

void Walk::read_formats() {
  const int64_t computes = element_bytes(work_.precision);
  for (uint32_t i = node_.begin(); i < node_.end(); ++i) {
    const Layer& layer = layers_[i];
    Node& n = node_[i];
    n.trained = !layer.parameters.empty() || work_.graph->received(i);
    n.size = half_ && !autocast() ? computes : 4;
    int64_t widest = 0;
    for (const uint32_t from : layer.inputs) {
      n.trained = n.trained || node_[from].trained;
      ++node_[from].readers;
      widest = std::max(widest, node_[from].size);
    }
    if (!autocast() || layer.type == nullptr) continue;
    if (!in_.habits.fused_kernels) n.apart = products_apart(layer);
    const AutocastFormat format = autocast_format(layer.type->name);
    n.size = format == AutocastFormat::half ? computes : format == AutocastFormat::widest ? widest : 4;
  }
}

/// Units are the repeated blocks; what lies outside of them is unit 0.
void Walk::read_units() {
  const auto count = static_cast<uint32_t>(layers_.size());
  std::map<std::string_view, uint32_t> known{{std::string_view{}, 0}};
  units_.assign(1, Unit{.first = count});
  for (uint32_t i = 0; i < count; ++i) {
    if (layers_[i].type == nullptr) continue;
    const auto [it, fresh] = known.try_emplace(block_of(layers_[i]), static_cast<uint32_t>(units_.size()));
    if (fresh) units_.push_back(Unit{.first = count});
    Unit& unit = units_[it->second];
    unit.first = std::min(unit.first, i);
    unit.last = i;
    unit.parameters += layers_[i].parameter_elements();
    unit.frozen += layers_[i].frozen_bytes(element_bytes(work_.precision)).n;
    for (const Parameter& p : layers_[i].parameters)
      unit.dealt += p.dealt && sharding_.experts > 0 ? p.elements : 0;
    node_[i].unit = it->second;
    node_[i].remakes = work_.recompute.drops_output(work_.layers[i]) || gates(i);
  }
  for (const LayerRange& block : blocks_again(work_.recompute, *work_.graph, {0, count})) {
    for (uint32_t i = std::max(block.first, node_.begin()); i < std::min(block.end(), node_.end()); ++i)
      node_[i].again = true;
  }
}

/// The input as the layer computes with it: itself, or a copy in another format under autocast.
Walk::Id Walk::cast(uint32_t i, uint32_t from, std::vector<Id>& temporary) {
  const Node& source = node_[from];
  if (!autocast() || given(from) || work_.graph->received(from)) return source.output;
  const AutocastFormat format = autocast_format(layers_[i].type->name);
  const int64_t computes = element_bytes(work_.precision);
  const int64_t size = format == AutocastFormat::half   ? computes
                       : format == AutocastFormat::wide ? 4
                                                        : source.size;
  if (size == source.size) return source.output;
  const Id copy = t_.make(tensor(elements(layers_[from].output), size));
  temporary.push_back(copy);
  return copy;
}

/// A cross-entropy in one kernel keeps the logits and turns them into their gradient in place (flash-attn's
/// CrossEntropyLoss with inplace_backward, Liger).
bool Walk::fused_loss(uint32_t i) const {
  return in_.habits.loss == Loss::fused && is_loss(i) && layers_[i].type->name == "cross-entropy";
}

/// Its own tensors of that life; the losses of a master judge all devices' samples. Autocast takes the
/// softmax of attention that is not fused in fp32, and what dropout leaves of it, and casts that for the
/// product.
std::vector<Walk::Id> Walk::own(uint32_t i, Life life) {
  const int64_t judges = is_loss(i) ? std::max<int64_t>(1, in_.gathers) : 1;
  std::vector<Id> out;
  if (fused_loss(i) || (is_loss(i) && in_.habits.loss == Loss::sum)) return out;
  const bool softmax = autocast() && layers_[i].type->name == "attention",
             wide = autocast() && autocast_format(layers_[i].type->name) == AutocastFormat::wide;
  int64_t largest = 0;
  for (const OwnTensor& o : work_.layers[i].own) {
    // A copy of what is overwritten in place.
    if (o.composed && work_.layers[i].in_place && !in_.habits.pytorch_operators) continue;
    if (o.life != life || spared(o) || work_.recompute.drops_own(work_.layers[i], o)) continue;
    const int64_t size = o.size > 0 ? o.size : softmax || wide ? 4 : element_bytes(work_.precision);
    if (o.size == 0) largest = std::max(largest, o.elements);
    out.push_back(t_.make(tensor(times(o.elements, judges), size)));
  }
  if (softmax && life == Life::kept) out.push_back(t_.make(tensor(largest, element_bytes(work_.precision))));
  return out;
}

/// An activation that a product with another tensor alone reads, in one kernel with it.
bool Walk::gates(uint32_t i) const {
  const auto activates = [&](uint32_t layer, std::size_t inputs) {
    return work_.layers[layer].cheap == Lowered::Cheap::activation && layers_[layer].inputs.size() == inputs;
  };
  if (!in_.habits.fused_kernels || node_[i].readers != 1 || work_.layers[i].in_place || !activates(i, 1))
    return false;
  for (uint32_t j = i + 1; j < layers_.size(); ++j) {
    if (std::count(layers_[j].inputs.begin(), layers_[j].inputs.end(), i) > 0) return activates(j, 2);
  }
  return false;
}

bool Walk::keeps_input(uint32_t i) const {
  const Lowered& l = work_.layers[i];
  if (in_.habits.fused_kernels && in_.habits.pytorch_operators && layers_[i].type->name == "max-pool")
    return false;
  return l.keeps_input || (!l.in_place && std::any_of(l.own.begin(), l.own.end(),
                                                      [&](const OwnTensor& o) { return spared(o); }));
}

/// Those that are recomputed in backward.
std::vector<Walk::Id> Walk::own_again(uint32_t i) {
  std::vector<Id> out;
  for (const OwnTensor& o : work_.layers[i].own) {
    if (o.life != Life::kept || spared(o) || !work_.recompute.drops_own(work_.layers[i], o)) continue;
    out.push_back(t_.make(tensor(o.elements, o.size > 0 ? o.size : element_bytes(work_.precision))));
  }
  return out;
}

/// The output of a layer that let go of it, from its inputs, which may have to be made first.
void Walk::remake(uint32_t i, std::vector<Id>& temporary) {
  if (!node_[i].remakes) return;
  for (const uint32_t from : layers_[i].inputs) remake(from, temporary);
  temporary.push_back(t_.make(bytes(i)));
}

/// References of an output: one for each layer that will read it, and one where a layer keeps it.
void Walk::forward(uint32_t i, bool again) {
  const Layer& layer = layers_[i];
  if (layer.type == nullptr) return;
  const Lowered& l = work_.layers[i];
  Node& n = node_[i];
  if (sharded()) gather(n.unit);
  const bool idle = replica() && is_loss(i), keep = (again || !n.again) && n.trained;
  std::vector<Id> temporary;
  for (const uint32_t from : layer.inputs) {
    if (given(from) || idle) continue;
    const Id input = cast(i, from, temporary);
    const bool reads = keeps_input(i) || fused_loss(i) || n.remakes;
    if (keep && reads && !node_[from].remakes) keep_input(i, from, input, temporary);
    if (!again && n.again && node_[from].unit != n.unit) keep_for_again(units_[n.unit], from);
  }
  if (autocast() && autocast_format(layer.type->name) == AutocastFormat::half) {
    // The cache of casts holds those of leaves that are learned; backward alone keeps a frozen one's.
    if (n.weights.empty()) {
      for (const Parameter& p : layer.parameters) n.weights.push_back(t_.make(times(p.elements, 2)));
    }
    for (const Parameter& p : layer.frozen) {
      if (layer.frozen_bits == 0) (keep ? n.kept : temporary).push_back(t_.make(times(p.elements, 2)));
    }
  }
  make_whole(layer, temporary);
  if (!idle) {
    for (const Id id : own(i, Life::forward)) temporary.push_back(id);
    for (const Id id : own(i, Life::kept)) (keep ? n.kept : temporary).push_back(id);
    for (const Id id : own_again(i)) temporary.push_back(id);
  }
  if (is_loss(i) && !layer.inputs.empty() && in_.gathers > 1)  // the outputs of all devices
    variables_.push_back(t_.make(bytes(layer.inputs[0]) * in_.gathers));
  if (is_loss(i) && !layer.inputs.empty() && !replica()) keep_logits(layer.inputs[0]);
  const int32_t readers = again ? readers_inside(i) : n.readers;
  const Id saved = again ? saved_output(i) : kNone;
  n.output = saved != kNone ? t_.hold(saved)
             : l.in_place   ? t_.hold(node_[layer.inputs[0]].output)
                            : t_.make(bytes(i));
  for (int32_t r = 1; r < readers; ++r) t_.hold(n.output);
  n.whole = kNone;
  if (!again && n.again) save(i);
  if (keep) keep_output(i);
  if (readers == 0 && (again || is_loss(i))) t_.drop(n.output);
  t_.drop_all(temporary);
  for (const uint32_t from : layer.inputs) {
    if (!given(from) && (!again || node_[from].unit == n.unit)) t_.drop(node_[from].output);
  }
  if (again || units_[n.unit].last != i) return;
  if (sharded() && !sharding_.keeps) let_go(n.unit);
  if (offload_.activations) offload_inputs(n.unit);
}

/// Of a part of the sequence that was gathered, where frameworks keep that, the whole, once for all readers.
/// Separate products of the model's own code that are one layer here have had a cast each.
void Walk::keep_input(uint32_t i, uint32_t from, Id input, std::vector<Id>& temporary) {
  Node& n = node_[i];
  if (work_.graph->sharing().keeps_inputs && work_.layers[i].input_join == Join::gather) {
    Id& whole = node_[from].whole;
    if (whole == kNone)
      whole = t_.make(bytes(from) * work_.graph->shared_by());
    else
      t_.hold(whole);
    n.kept.push_back(whole);
    return;
  }
  n.kept.push_back(t_.hold(input));
  if (input == node_[from].output) return;
  for (int64_t more = 1; more < n.apart; ++more) n.kept.push_back(t_.hold(cast(i, from, temporary)));
}

/// Max-pooling keeps where its maxima were. Of an activation whose mask its input gives fused kernels keep
/// nothing of their own.
void Walk::keep_output(uint32_t i) {
  Node& n = node_[i];
  const Lowered& l = work_.layers[i];
  const bool fused = in_.habits.fused_kernels;
  if (!l.keeps_output || n.remakes || (fused && l.cheap == Lowered::Cheap::activation)) return;
  if (layers_[i].type->name == "max-pool" && in_.habits.pytorch_operators)
    n.kept.push_back(t_.make(tensor(elements(layers_[i].output), fused ? 1 : 8)));
  else
    n.kept.push_back(t_.hold(n.output));
}

void Walk::keep_logits(uint32_t layer) {
  const Node& n = node_[layer];
  if (in_.habits.logits == Logits::dropped) return;
  if (in_.habits.logits == Logits::fp32 && n.size < 4)
    variables_.push_back(t_.make(bytes(layer) / n.size * 4));
  else
    variables_.push_back(t_.hold(n.output));
}

int32_t Walk::readers_inside(uint32_t i) const {
  int32_t readers = 0;
  for (uint32_t j = i + 1; j <= units_[node_[i].unit].last; ++j) {
    if (node_[j].unit != node_[i].unit) continue;
    readers += static_cast<int32_t>(std::count(layers_[j].inputs.begin(), layers_[j].inputs.end(), i));
  }
  return readers;
}

void Walk::make_again(uint32_t unit) {
  Unit& u = units_[unit];
  if (u.remade) return;
  u.remade = true;
  if (offload_.activations) reload_inputs(unit);
  for (uint32_t i = u.first; i <= u.last; ++i) {
    if (node_[i].unit == unit) forward(i, true);
  }
}

/// A unit's whole parameters, and ahead of their use those of the next unit; what lies outside of blocks
/// stays from the first forward to the last backward op.
void Walk::gather(uint32_t unit) {
  Unit& u = units_[unit];
  if (u.gathered == kNone && !sharding_.stays)
    u.gathered = t_.make(times(u.parameters, element_bytes(work_.precision)) + u.frozen);
}

/// What stays of the output of a layer whose block runs forward again, and the statistics of an attention.
void Walk::save(uint32_t i) {
  const double part = work_.kept.empty() ? 0 : work_.kept[i];
  if (part <= 0) return;
  Unit& u = units_[node_[i].unit];
  if (part >= 1) u.saved[i] = t_.hold(node_[i].output);
  u.inputs.push_back(part >= 1 ? u.saved[i]
                               : t_.make(static_cast<int64_t>(static_cast<double>(bytes(i)) * part)));
  if (part >= 1) {
    for (const Id id : own(i, Life::kept)) u.inputs.push_back(id);
  }
}

Walk::Id Walk::saved_output(uint32_t i) const {
  const auto& saved = units_[node_[i].unit].saved;
  const auto at = saved.find(i);
  return at == saved.end() ? kNone : at->second;
}

/// Once, where it goes down; else each reader holds it.
void Walk::keep_for_again(Unit& unit, uint32_t from) {
  if (offload_.activations) {
    if (std::find(unit.outside.begin(), unit.outside.end(), from) != unit.outside.end()) return;
    unit.outside.push_back(from);
  }
  unit.inputs.push_back(t_.hold(node_[from].output));
}

/// What the block keeps goes down; its room is free when that of the next one goes.
void Walk::offload_inputs(uint32_t unit) {
  if (unit == 0) return;
  t_.drop_all(offloading_);
  std::swap(offloading_, units_[unit].inputs);
  for (const uint32_t from : units_[unit].outside)
    if (!stepped_) host_bytes_ += bytes(from);
}

/// It comes up again, in one piece for each.
void Walk::reload_inputs(uint32_t unit) {
  Unit& u = units_[unit];
  for (const uint32_t from : u.outside) {
    node_[from].output = t_.make(bytes(from));
    u.inputs.push_back(node_[from].output);
  }
}

void Walk::let_go(uint32_t unit) {
  if (unit == 0) return;
  t_.drop(units_[unit].gathered);
  units_[unit].gathered = kNone;
}

void Walk::add_gradient(uint32_t to, Id gradient) {
  Node& n = node_[to];
  if (n.gradient == kNone) {
    n.gradient = t_.hold(gradient);
    return;
  }
  if (t_.alone(n.gradient)) return;  // summed in place
  const Id sum = t_.make(bytes(to));
  t_.drop(n.gradient);
  n.gradient = sum;
}

void Walk::input_gradients(uint32_t i) {
  const Layer& layer = layers_[i];
  const bool same = passes_gradient_on(layer, work_.layers[i]);
  for (const uint32_t from : layer.inputs) {
    if (!node_[from].trained) continue;
    if (fused_loss(i)) {
      node_[from].gradient = t_.hold(node_[i].kept.front());
      continue;
    }
    if (same) {
      add_gradient(from, node_[i].gradient);
      continue;
    }
    const int64_t many = is_loss(i) ? std::max<int64_t>(1, in_.gathers) : 1;
    const bool casts =
        autocast() && node_[from].size == 4 && autocast_format(layer.type->name) == AutocastFormat::half;
    const Id narrow = casts ? t_.make(bytes(from) / 2) : kNone;
    const Id gradient = t_.make(bytes(from) * many);
    t_.drop(narrow);
    add_gradient(from, gradient);
    t_.drop(gradient);
  }
}

void Walk::backward(uint32_t i) {
  const Layer& layer = layers_[i];
  if (layer.type == nullptr) return;
  Node& n = node_[i];
  if (sharded()) gather(n.unit);
  if (n.again) make_again(n.unit);
  std::vector<Id> remade;
  if (n.trained) {
    if (work_.layers[i].keeps_output) remake(i, remade);
    for (const uint32_t from : layer.inputs) {
      if (keeps_input(i)) remake(from, remade);
    }
    for (const Id id : own_again(i)) remade.push_back(id);
  }
  if (n.trained && !(replica() && is_loss(i))) {
    std::vector<Id> temporary = own(i, Life::backward);
    make_whole(layer, temporary);
    while (temporary.size() > 1) {
      t_.drop(temporary.front());
      temporary.erase(temporary.begin());
    }
    input_gradients(i);
    weight_gradients(i);
    t_.drop_all(temporary);
  } else if (replica() && is_loss(i) && !layer.inputs.empty()) {
    node_[layer.inputs[0]].gradient = t_.make(bytes(layer.inputs[0]));  // comes from the master
  }
  t_.drop_all(remade);
  t_.drop(n.gradient);
  n.gradient = n.whole = kNone;
  t_.drop_all(n.kept);
  t_.drop_all(n.weights);
  Unit& u = units_[n.unit];
  if (u.first != i) return;
  t_.drop_all(u.inputs);
  u.saved.clear();
  u.outside.clear();
  u.remade = false;
  if (shards_gradients()) reduce_unit(n.unit);
  if (sharded()) let_go(n.unit);
}

/// What is held for the present micro-batch is set aside.
void Walk::switch_to(uint32_t micro) {
  if (micro == micro_) return;
  live_[micro_] = {std::move(node_), std::move(units_), std::move(variables_)};
  const auto [at, first] = live_.try_emplace(micro, fresh_);
  node_ = std::move(at->second.node);
  units_ = std::move(at->second.units);
  variables_ = std::move(at->second.variables);
  live_.erase(at);
  micro_ = micro;
}

/// What comes from other devices is there when the layers begin, and what goes to them is let go of.
void Walk::forward_over(LayerRange layers) {
  for (uint32_t i = node_.begin(); i < layers.first; ++i) {
    if (!work_.graph->received(i) || node_[i].output != kNone) continue;
    node_[i].output = t_.make(bytes(i));
    for (int32_t r = 1; r < node_[i].readers; ++r) t_.hold(node_[i].output);
  }
  for (uint32_t i = layers.first; i < layers.end(); ++i) {
    forward(i, false);
    if (sent(i)) t_.drop(node_[i].output);
    t_.note("forward", micro_, &layers_[i]);
  }
}

void Walk::backward_over(LayerRange layers) {
  const uint32_t last = layers.end() - 1;
  if (layers.end() == layers_.size() && !is_loss(last)) {
    // What is back-propagated is the sum of the output's elements.
    keep_logits(last);
    t_.drop(node_[last].output);
    node_[last].gradient = t_.make(bytes(last));
  }
  for (uint32_t i = layers.end(); i-- > layers.first;) {
    if (sent(i)) node_[i].gradient = t_.make(bytes(i));
    backward(i);
    t_.note("backward", micro_, &layers_[i]);
  }
  for (uint32_t i = node_.begin(); i < layers.first; ++i) {
    if (!work_.graph->received(i)) continue;
    t_.drop(node_[i].gradient);
    node_[i].gradient = node_[i].output = kNone;
  }
  t_.drop_all(in_flight_);
  t_.drop_all(variables_);
  t_.drop(units_[0].gathered);
  units_[0].gathered = kNone;
  std::fill(there_.begin() + layers.first, there_.begin() + layers.end(), true);
}

void Walk::step() {
  std::vector<Id> replicas;
  if (replica()) {
    for (const Layer& layer : layers_) {
      for (const Parameter& p : layer.parameters)
        replicas.push_back(t_.make(times(p.elements, parameter_size())));
    }
  }
  if (std::find(there_.begin(), there_.end(), true) == there_.end()) gradient_bytes_ = 0;
  for (const Unit& u : units_) {  // until the step's last pass
    if (sharding_.stays)
      whole_.push_back(t_.make(times(u.parameters, element_bytes(work_.precision)) + u.frozen));
  }
  for (const ChunkPass& pass : passes_) {
    switch_to(pass.micro);
    if (pass.forward)
      forward_over(pass.layers);
    else
      backward_over(pass.layers);
  }
  t_.drop_all(whole_);
  t_.allocator.take_high();  // of the last pass, whose ends are gone
  if (in_.gathers > 1) sum_replicas();
  update();
  t_.note("update", 0, nullptr);
  if (!in_.habits.gradients_stay) free_gradients();
  t_.drop_all(replicas);
}

WalkResult Walk::run() {
  take_state();
  step();
  stepped_ = true;
  t_.noting = in_.over_step;
  t_.allocator.take_high();
  step();
  const CachingAllocator& a = t_.allocator;
  return {{parameter_bytes_}, {gradient_bytes_},  {state_bytes_},    {buffer_bytes_}, in_.workspace,
          {host_bytes_},      a.peak_allocated(), a.peak_reserved(), a.exceeded(),    std::move(t_.notes)};
}

Bytes Walk::kept_by_forward() {
  const Bytes before = t_.allocator.allocated();
  forward_over(passes_.front().layers);
  return t_.allocator.allocated() - before;
}

WalkResult walk_memory(const WalkInput& input) { return Walk(input).run(); }

}  // namespace tandem::sim
