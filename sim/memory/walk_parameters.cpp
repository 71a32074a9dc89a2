// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "schemes/step/compression.h"
#include "sim/memory/memory_walk.h"

namespace tandem::sim {

namespace {

using ParameterFormat = MemoryHabits::Weights;

}  // namespace

/// What is there before the first step: parameters, statistics, input, the buckets of communication.
void Walk::take_state() {
  const int64_t all = work_.graph->parameter_elements();
  int64_t statistics = 0;
  for (uint32_t i = 0; i < layers_.size(); ++i) {
    statistics += work_.layers[i].buffers;
    if (replica()) continue;
    take_frozen(layers_[i]);
    for (const Parameter& p : layers_[i].parameters) {
      if (offload_.parameters) continue;
      const int64_t size = sharded() && half_ && weights_ == ParameterFormat::master ? 4 : parameter_size();
      const int64_t bytes = times(share(p.elements, sharding_.of(sharding_.parameters, p.dealt)), size);
      t_.make(bytes);
      parameter_bytes_ += bytes;
    }
    t_.make(work_.layers[i].buffers * 4);
  }
  if (half_ && weights_ == ParameterFormat::master && !sharded()) {
    const int64_t dealt = sharding_.experts > 0 ? work_.graph->dealt_elements() : 0;
    const int64_t master = share(times(all - dealt, 4), sharding_.state) +
                           share(times(dealt, 4), sharding_.of(sharding_.state, true));
    t_.make(master);
    parameter_bytes_ += master;
  }
  t_.make(in_.workspace.n);
  const int64_t input = tensor(work_.graph->sample().decoded.n, 1);
  for (int batch = 0; batch < 2; ++batch) t_.make(input);
  buffer_bytes_ = statistics * 4 + 2 * input;
  buckets_ = in_.habits.buckets && replicas(*in_.program) > 1;
  const int64_t bucket = buckets_ ? times(all, parameter_size())
                         : compressed_words(*in_.program, in_.role, *work_.graph) > 0 ? 0
                                                                                      : largest_message();
  t_.make(bucket);
  buffer_bytes_ += bucket;
  take_averaging();
}

/// What a worker keeps for averaging in fp32, the gradients that wait to be applied, and where gradients are
/// compressed what was left out and what travels.
void Walk::take_averaging() {
  if (replica()) return;
  const int64_t one = times(work_.graph->parameter_elements(), 4), own = share(one, sharding_.state);
  for (int64_t k = 0; k < averaging_vectors(*in_.program); ++k) t_.make(own), state_bytes_ += own;
  for (int64_t k = 0; k < in_.program->delay; ++k) t_.make(one), buffer_bytes_ += one;
  for (int64_t k = 0; k < feedback_vectors(*in_.program); ++k) t_.make(one), buffer_bytes_ += one;
  const int64_t compressed = times(compressed_words(*in_.program, in_.role, *work_.graph), 4);
  t_.make(compressed);
  buffer_bytes_ += compressed;
}

/// Bytes of that many frozen weights of the layer.
int64_t Walk::frozen_size(const Layer& layer, int64_t count) const {
  return layer.frozen_bits > 0 ? static_cast<int64_t>(static_cast<double>(count) * layer.frozen_bits / 8)
                               : times(count, parameter_size());
}

/// Weights that stay as they are: in the format that is computed with, unless they are stored in fewer bits.
void Walk::take_frozen(const Layer& layer) {
  for (const Parameter& p : layer.frozen) {
    if (offload_.parameters) continue;
    const int64_t bytes = frozen_size(layer, share(p.elements, sharding_.of(sharding_.parameters, p.dealt)));
    t_.make(bytes);
    parameter_bytes_ += bytes;
  }
}

/// Those that are stored in fewer bits, written out while a pass over the layer uses them: of experts one
/// matrix at a time.
void Walk::make_whole(const Layer& layer, std::vector<Id>& temporary) {
  if (layer.frozen_bits <= 0) return;
  int64_t count = 0, of_experts = 0;
  for (const Parameter& p : layer.frozen) {
    if (p.dealt)
      of_experts = std::max(of_experts, p.elements / std::max<int64_t>(1, p.hidden));
    else
      count += p.elements;
  }
  temporary.push_back(t_.make(times(count + of_experts, element_bytes(work_.precision))));
}

/// The largest bucket of gradients is copied before it travels, unless its units do (reduce_unit).
int64_t Walk::largest_message() const {
  int64_t most = 0;
  if (shards_gradients() || in_.gathers != 0 || sums_apart()) return 0;  // those in fp32 travel as they lie
  in_.program->roles[in_.role].ops.each_distinct([&](const Op& op, int64_t) {
    if ((op.kind == OpKind::collective || op.kind == OpKind::send) && op.payload != Payload::parameters &&
        (!of_layers(op.payload) || in_.program->grid.axes.empty()))
      most = std::max(most, op.bytes.n);
  });
  return most;
}

/// Gradients of the layer's parameters: new ones, or added to those of micro-batches before. That of an
/// output layer tied to the embedding waits for the embedding's own (torch's engine sums what meets at one
/// parameter), unless the embedding is on another device.
void Walk::weight_gradients(uint32_t i) {
  const Layer& layer = layers_[i];
  const int64_t size = parameter_size();
  const bool sharded = shards_gradients();
  const auto one = [&](int64_t count, bool first) {
    const Id half = autocast() ? t_.make(times(count, 2)) : kNone;
    if (sharding_.stays) return sum_whole(count, first);
    const Id whole = t_.make(times(count, sharded && half_ ? element_bytes(work_.precision) : size));
    t_.drop(half);
    if (offload_.gradients && !sharded)
      t_.drop_all(in_flight_), in_flight_.push_back(whole);
    else if (in_.habits.update == MemoryHabits::Update::backward)
      t_.drop(t_.make(times(count, weights_ == ParameterFormat::half && half_ ? 2 : 4))), t_.drop(whole);
    else if (sharded)
      units_[node_[i].unit].gradients.push_back(whole);
    else if (!first || (in_.habits.buckets && in_.habits.bucket_views && buckets_))
      t_.drop(whole);
    else if (gradient_size() == size)
      gradients_.push_back(whole), gradient_bytes_ += count * size;
    else
      t_.drop(whole), gradients_.push_back(t_.make(times(count, 4))), gradient_bytes_ += count * 4;
  };
  const int64_t width = layer.output.empty() ? 0 : layer.output.back();
  if (const auto owner = work_.graph->tied_to(i); owner && !layers_[*owner].parameters.empty()) {
    const Layer& input = layers_[layer.inputs[0]];
    tied_.push_back(t_.make(width * input.output.back() * size));
  }
  for (const Parameter& p : layer.parameters) one(p.elements, !there_[i]);
  if (layer.type->name == "embedding" && !tied_.empty() && width > 0) {  // the sum is a third tensor
    t_.drop(t_.make(layer.parameters[0].elements * size));
    t_.drop_all(tied_);
  }
}

/// Where gradients are scattered once a step, those of micro-batches are added up whole, in the format in
/// which they travel (FSDP's unsharded_accumulated_grad).
void Walk::sum_whole(int64_t count, bool first) {
  const Id made = t_.make(times(count, element_bytes(work_.precision)));
  if (first) gradients_.push_back(t_.make(times(count, 4))), gradient_bytes_ += times(count, 4);
  t_.drop(made);
}

/// Scatters the sums of a unit's gradients: the copy that travels is there until the next unit's is.
void Walk::reduce_unit(uint32_t unit) {
  Unit& u = units_[unit];
  if (u.gradients.empty()) return;
  t_.drop_all(in_flight_);
  in_flight_.push_back(
      t_.make(times(u.parameters, in_.habits.fp32_sums && half_ ? 4 : element_bytes(work_.precision))));
  if (!there_[u.first] && !offload_.gradients) {
    const int64_t cut = share(u.parameters - u.dealt, sharding_.gradients) +
                        share(u.dealt, sharding_.of(sharding_.gradients, true));
    const int64_t part = cut * (sharded() && weights_ != ParameterFormat::half ? 4 : gradient_size());
    gradients_.push_back(t_.make(part));
    gradient_bytes_ += part;
  }
  t_.drop_all(u.gradients);
}

void Walk::free_gradients() {
  t_.drop_all(gradients_);
  there_.assign(layers_.size(), false);
}

/// Servers on the devices that have keys each to itself: the device with the most of them is looked at.
void Walk::read_owners() {
  const Program& program = *in_.program;
  if (program.stores.empty()) return;
  const Role& servers = program.roles[program.stores[0].role];
  const Channel& pushes = program.channels[static_cast<std::size_t>(servers.on_channel)];
  if (servers.site != Site::accelerators || pushes.owners.empty()) return;
  const auto& buckets = program.buckets;
  std::vector<int64_t> elements(static_cast<std::size_t>(servers.mesh.size()));
  for (std::size_t key = 0; key < buckets.size(); ++key)
    elements[pushes.owners[key]] += buckets[key].elements;
  const auto fullest = std::max_element(elements.begin(), elements.end()) - elements.begin();
  int64_t at = 0;  // in the flat vector
  std::size_t key = 0;
  for (std::size_t i = layers_.size(); i-- > 0;) {
    for (std::size_t p = layers_[i].parameters.size(); p-- > 0;) {
      const Parameter& parameter = layers_[i].parameters[p];
      int64_t& owned = owned_[&parameter];
      for (const int64_t end = at + parameter.elements; at < end && key < buckets.size();) {
        const int64_t next = std::min(end, buckets[key].first + buckets[key].elements);
        owned += pushes.owners[key] == fullest ? next - at : 0;
        at = next;
        if (at == buckets[key].first + buckets[key].elements) ++key;
      }
    }
  }
}

int64_t Walk::updated(const Parameter& p) const {
  return owned_.empty() ? share(p.elements, sharding_.of(sharding_.state, p.dealt)) : owned_.at(&p);
}

/// Optimiser state is made by the first update; temporaries come and go with each.
void Walk::update() {
  const Optimizer& o = *work_.optimizer;
  if (replica() || o.name == "none") return;
  if (offload_.optimizer) return offload_update();
  std::vector<Id> temporary;
  for (const Layer& layer : layers_) {
    for (const Parameter& p : layer.parameters) {
      make_state(p);
      if (half_ && weights_ == ParameterFormat::master && !shards_gradients() && !sums_apart())
        temporary.push_back(t_.make(updated_bytes(p)));
    }
  }
  state_ = true;
  // torch.optim's SGD adds the step to the parameters in place, and so the gradient to the momentum.
  if ((o.name == "sgd" || o.name == "momentum") && !in_.habits.decays) return t_.drop_all(temporary);
  for (const Layer& layer : layers_) {
    for (const Parameter& p : layer.parameters) {
      using Update = MemoryHabits::Update;
      if (in_.habits.update == Update::fused || in_.habits.update == Update::backward) continue;
      const Id id = t_.make(updated_bytes(p));
      if (in_.habits.update == MemoryHabits::Update::foreach)
        temporary.push_back(id);
      else
        t_.drop(id);
    }
  }
  t_.drop_all(temporary);
}

/// On the host: parameters, gradients and state of what this device updates.
void Walk::offload_update() {
  if (state_) return;
  state_ = true;
  const Optimizer& o = *work_.optimizer;
  for (const Layer& layer : layers_) {
    for (const Parameter& p : layer.parameters) {
      const int64_t own = share(p.elements, sharding_.of(sharding_.state, p.dealt)),
                    size = half_updates_ ? 2 : 4;
      host_bytes_ += times(own, 2 * size) + (o.flat() ? times(own, o.state * size) : own_state(p));
    }
    for (const Parameter& p : layer.frozen) {
      const int64_t own = share(p.elements, sharding_.of(sharding_.parameters, p.dealt));
      host_bytes_ += offload_.parameters ? frozen_size(layer, own) : 0;
    }
  }
}

/// Of what this device updates of a parameter, in the format of the update.
int64_t Walk::updated_bytes(const Parameter& p) const {
  return times(updated(p), weights_ == ParameterFormat::half && half_ ? 2 : 4);
}

int64_t Walk::own_state(const Parameter& p) const {
  if (!owned_.empty() && updated(p) == 0) return 0;
  return work_.optimizer->device_state(p.elements, p.rows, sharding_.of(sharding_.state, p.dealt),
                                       p.hidden > 0);
}

void Walk::make_state(const Parameter& p) {
  const Optimizer& o = *work_.optimizer;
  if (state_) return;
  if (o.paged) host_bytes_ += times(o.state_words(updated(p), 0), 4);
  if (!o.flat() || o.paged) {
    const int64_t bytes = own_state(p);
    t_.make(bytes);
    state_bytes_ += bytes;
    return;
  }
  for (int64_t s = 0; s < o.state; ++s) t_.make(updated_bytes(p)), state_bytes_ += updated_bytes(p);
}

/// The sums over all replicas, separate from the master's own gradients.
void Walk::sum_replicas() {
  std::vector<Id> sums;
  for (const Layer& layer : layers_) {
    for (const Parameter& p : layer.parameters) sums.push_back(t_.make(times(p.elements, parameter_size())));
  }
  t_.drop_all(gradients_);
  gradients_ = std::move(sums);
}

}  // namespace tandem::sim
