// SPDX-License-Identifier: Apache-2.0
#include "sim/memory/memory_walk.h"

#include <algorithm>
#include <map>

#include "sim/memory/memory_tensors.h"

namespace tandem::sim {

namespace {

using Weights = MemoryHabits::Weights;
using Loss = MemoryHabits::Loss;
using Logits = MemoryHabits::Logits;
using Life = OwnTensor::Life;

int64_t share(int64_t n, int64_t holders) { return (n + holders - 1) / holders; }

class Walk {
 public:
  explicit Walk(const WalkInput& in);
  WalkResult run();

 private:
  using Id = Tensors::Id;
  static constexpr Id kNone = Tensors::kNone;
  struct Node {            // of a layer
    bool trained = false;  // it or a layer before it has parameters
    int64_t size = 4;      // bytes an element of its output
    uint32_t unit = 0;     // whose parameters are gathered together; 0 = outside of blocks
    bool again = false;    // made again in backward
    int32_t readers = 0;   // layers that read its output
    Id output = kNone, gradient = kNone;
    std::vector<Id> kept;     // dropped behind its backward pass
    std::vector<Id> weights;  // half copies under autocast
  };
  struct Unit {
    uint32_t first = 0, last = 0;  // layers, inclusive
    int64_t parameters = 0;
    Id gathered = kNone;
    bool remade = false;
    std::vector<Id> inputs{};  // from outside, kept for making it again
    std::vector<Id> gradients{};
  };

  void read_formats();
  void read_units();
  void take_state();
  int64_t largest_message() const;
  void forward(uint32_t i, bool again);
  void keep_logits(uint32_t layer);
  int32_t readers_inside(uint32_t i) const;
  Id cast(uint32_t i, uint32_t from, std::vector<Id>& temporary);
  void backward(uint32_t i);
  void input_gradients(uint32_t i);
  void add_gradient(uint32_t to, Id gradient);
  void weight_gradients(uint32_t i);
  void make_again(uint32_t unit);
  void gather(uint32_t unit);
  void let_go(uint32_t unit);
  void reduce_unit(uint32_t unit);
  void step();
  void update();
  void free_gradients();
  int64_t parameter_size() const { return half_ && weights_ != Weights::fp32 ? 2 : 4; }
  static int64_t times(int64_t count, int64_t size) { return checked_mul(count, size, "a tensor"); }
  /// Of the whole batch.
  int64_t tensor(int64_t elements, int64_t size) const { return (Bytes{elements} * work_.batch * size).n; }
  int64_t bytes(uint32_t i) const { return tensor(elements(layers_[i].output), node_[i].size); }
  bool sharded() const { return sharding_.parameters > 1; }
  bool shards_gradients() const { return sharding_.gradients > 1 && !in_.habits.gradients_whole; }
  bool replica() const { return in_.gathers < 0; }
  bool is_loss(uint32_t i) const { return layers_[i].output.empty() && layers_[i].parameters.empty(); }
  bool autocast() const { return half_ && weights_ == Weights::fp32 && !sharded(); }
  bool fused_loss(uint32_t i) const;
  std::vector<Id> own(uint32_t i, Life life);

  const WalkInput& in_;
  const Workload& work_;
  const std::vector<Layer>& layers_;
  const Sharding& sharding_;
  const bool half_;
  Weights weights_;
  Tensors t_;
  std::vector<Node> node_;
  std::vector<Unit> units_;
  std::vector<Id> gradients_;  // of parameters, until they are freed
  std::vector<Id> in_flight_;  // a unit's gradients on their way
  std::vector<Id> tied_;       // of an output layer, for the embedding's weight
  std::vector<Id> variables_;  // of the training loop, while backward runs
  bool state_ = false, gradients_there_ = false, buckets_ = false;
  int64_t parameter_bytes_ = 0, gradient_bytes_ = 0, state_bytes_ = 0, buffer_bytes_ = 0;
};

Walk::Walk(const WalkInput& in)
    : in_(in),
      work_(*in.work),
      layers_(work_.graph->layers()),
      sharding_(in.program->sharding),
      half_(element_bytes(work_.precision) < 4),
      weights_(in.habits.weights),
      t_(in.limit),
      node_(layers_.size()) {
  if (weights_ == Weights::automatic) weights_ = sharding_.state > 1 ? Weights::master : Weights::fp32;
  read_formats();
  read_units();
}

void Walk::read_formats() {
  const int64_t computes = element_bytes(work_.precision);
  for (uint32_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    Node& n = node_[i];
    n.trained = !layer.parameters.empty();
    n.size = half_ && !autocast() ? computes : 4;
    int64_t widest = 0;
    for (const uint32_t from : layer.inputs) {
      n.trained = n.trained || node_[from].trained;
      ++node_[from].readers;
      widest = std::max(widest, node_[from].size);
    }
    if (!autocast() || layer.type == nullptr) continue;
    const AutocastFormat format = autocast_format(layer.type->name);
    n.size = format == AutocastFormat::half ? computes : format == AutocastFormat::wide ? 4 : widest;
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
    node_[i].unit = it->second;
    node_[i].again = work_.recompute && it->second != 0;
  }
}

/// What is there before the first step: parameters, statistics, input, the buckets of communication.
void Walk::take_state() {
  const int64_t all = work_.graph->parameter_elements();
  int64_t statistics = 0;
  for (uint32_t i = 0; i < layers_.size(); ++i) {
    statistics += work_.layers[i].buffers;
    if (replica()) continue;
    for (const Parameter& p : layers_[i].parameters) {
      const int64_t size = sharded() && half_ && weights_ == Weights::master ? 4 : parameter_size();
      const int64_t bytes = times(share(p.elements, sharding_.parameters), size);
      t_.make(bytes);
      parameter_bytes_ += bytes;
    }
    t_.make(work_.layers[i].buffers * 4);
  }
  if (half_ && weights_ == Weights::master && !sharded()) {
    const int64_t master = share(times(all, 4), sharding_.state);
    t_.make(master);
    parameter_bytes_ += master;
  }
  t_.make(in_.workspace.n);
  const int64_t input = tensor(work_.graph->sample().decoded.n, 1);
  for (int batch = 0; batch < 2; ++batch) t_.make(input);
  buffer_bytes_ = statistics * 4 + 2 * input;
  buckets_ = in_.habits.buckets && in_.program->roles[0].mesh.size() > 1;
  const int64_t bucket = buckets_ ? times(all, parameter_size()) : largest_message();
  t_.make(bucket);
  buffer_bytes_ += bucket;
}

/// The largest bucket of gradients is copied before it travels, unless its units do (reduce_unit).
int64_t Walk::largest_message() const {
  int64_t most = 0;
  if (shards_gradients() || in_.gathers != 0) return 0;
  for (const Op& op : in_.program->roles[0].ops) {
    if ((op.kind == OpKind::collective || op.kind == OpKind::send) && op.payload != Payload::parameters)
      most = std::max(most, op.bytes.n);
  }
  return most;
}

/// The input as the layer computes with it: itself, or a copy in another format under autocast.
Walk::Id Walk::cast(uint32_t i, uint32_t from, std::vector<Id>& temporary) {
  const Node& source = node_[from];
  if (!autocast() || layers_[from].type == nullptr) return source.output;
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
  const bool softmax = autocast() && layers_[i].type->name == "attention";
  int64_t largest = 0;
  for (const OwnTensor& o : work_.layers[i].own) {
    if (o.life != life) continue;
    const int64_t size = o.size > 0 ? o.size : softmax ? 4 : element_bytes(work_.precision);
    if (o.size == 0) largest = std::max(largest, o.elements);
    out.push_back(t_.make(tensor(times(o.elements, judges), size)));
  }
  if (softmax && life == Life::kept) out.push_back(t_.make(tensor(largest, element_bytes(work_.precision))));
  return out;
}

/// References of an output: one for each layer that will read it, and one where a layer keeps it.
void Walk::forward(uint32_t i, bool again) {
  const Layer& layer = layers_[i];
  const Lowered& l = work_.layers[i];
  Node& n = node_[i];
  if (layer.type == nullptr) return;
  if (sharding_.parameters > 1) gather(n.unit);
  const bool idle = replica() && is_loss(i), keep = (again || !n.again) && n.trained;
  std::vector<Id> temporary;
  for (const uint32_t from : layer.inputs) {
    if (layers_[from].type == nullptr || idle) continue;
    const Id input = cast(i, from, temporary);
    if (keep && (l.keeps_input || fused_loss(i))) n.kept.push_back(t_.hold(input));
    if (!again && n.again && node_[from].unit != n.unit)
      units_[n.unit].inputs.push_back(t_.hold(node_[from].output));
  }
  if (autocast() && n.weights.empty() && autocast_format(layer.type->name) == AutocastFormat::half) {
    for (const Parameter& p : layer.parameters) n.weights.push_back(t_.make(times(p.elements, 2)));
  }
  if (!idle) {
    for (const Id id : own(i, Life::forward)) temporary.push_back(id);
    for (const Id id : own(i, Life::kept)) (keep ? n.kept : temporary).push_back(id);
  }
  if (is_loss(i) && !layer.inputs.empty() && in_.gathers > 1)  // the outputs of all devices
    variables_.push_back(t_.make(bytes(layer.inputs[0]) * in_.gathers));
  if (is_loss(i) && !layer.inputs.empty() && !replica()) keep_logits(layer.inputs[0]);
  const int32_t readers = again ? readers_inside(i) : n.readers;
  n.output = l.in_place ? t_.hold(node_[layer.inputs[0]].output) : t_.make(bytes(i));
  for (int32_t r = 1; r < readers; ++r) t_.hold(n.output);
  if (keep && l.keeps_output) n.kept.push_back(t_.hold(n.output));
  if (readers == 0 && (again || is_loss(i))) t_.drop(n.output);
  t_.drop_all(temporary);
  for (const uint32_t from : layer.inputs) {
    if (layers_[from].type != nullptr && (!again || node_[from].unit == n.unit)) t_.drop(node_[from].output);
  }
  if (sharding_.parameters > 1 && !again && units_[n.unit].last == i) let_go(n.unit);
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
  for (uint32_t i = u.first; i <= u.last; ++i) {
    if (node_[i].unit == unit) forward(i, true);
  }
}

/// A unit's whole parameters, and ahead of their use those of the unit behind it; what lies outside of blocks
/// stays from the first forward to the last backward op.
void Walk::gather(uint32_t unit) {
  Unit& u = units_[unit];
  if (u.gathered == kNone) u.gathered = t_.make(times(u.parameters, element_bytes(work_.precision)));
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

/// Gradients of the layer's parameters: new ones, or added to those of micro-batches before. That of an
/// output layer tied to the embedding waits for the embedding's own (torch's engine sums what meets at one
/// parameter).
void Walk::weight_gradients(uint32_t i) {
  const Layer& layer = layers_[i];
  const int64_t size = parameter_size();
  const bool sharded = shards_gradients();
  const auto one = [&](int64_t count, bool first) {
    const Id half = autocast() ? t_.make(times(count, 2)) : kNone;
    const Id whole = t_.make(times(count, sharded && half_ ? element_bytes(work_.precision) : size));
    t_.drop(half);
    if (sharded)
      units_[node_[i].unit].gradients.push_back(whole);
    else if (!first || (in_.habits.buckets && in_.habits.bucket_views && buckets_))
      t_.drop(whole);
    else
      gradients_.push_back(whole), gradient_bytes_ += count * size;
  };
  const int64_t width = layer.output.empty() ? 0 : layer.output.back();
  if (layer.type->name == "tied-linear") {
    const Layer& input = layers_[layer.inputs[0]];
    tied_.push_back(t_.make(width * input.output.back() * size));
  }
  for (const Parameter& p : layer.parameters) one(p.elements, !gradients_there_);
  if (layer.type->name == "embedding" && !tied_.empty() && width > 0) {  // the sum is a third tensor
    t_.drop(t_.make(layer.parameters[0].elements * size));
    t_.drop_all(tied_);
  }
}

/// Scatters the sums of a unit's gradients: the copy that travels is there until the next unit's is.
void Walk::reduce_unit(uint32_t unit) {
  Unit& u = units_[unit];
  if (u.gradients.empty()) return;
  t_.drop_all(in_flight_);
  in_flight_.push_back(t_.make(times(u.parameters, element_bytes(work_.precision))));
  if (!gradients_there_) {
    const int64_t part = share(u.parameters, sharding_.gradients) *
                         (sharded() && weights_ != Weights::half ? 4 : parameter_size());
    gradients_.push_back(t_.make(part));
    gradient_bytes_ += part;
  }
  t_.drop_all(u.gradients);
}

void Walk::backward(uint32_t i) {
  const Layer& layer = layers_[i];
  Node& n = node_[i];
  if (layer.type == nullptr) return;
  if (sharding_.parameters > 1) gather(n.unit);
  if (n.again) make_again(n.unit);
  if (n.trained && !(replica() && is_loss(i))) {
    std::vector<Id> temporary = own(i, Life::backward);
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
  t_.drop(n.gradient);
  n.gradient = kNone;
  t_.drop_all(n.kept);
  t_.drop_all(n.weights);
  Unit& u = units_[n.unit];
  if (u.first != i) return;
  t_.drop_all(u.inputs);
  u.remade = false;
  if (shards_gradients()) reduce_unit(n.unit);
  if (sharding_.parameters > 1) let_go(n.unit);
}

void Walk::free_gradients() {
  t_.drop_all(gradients_);
  gradients_there_ = false;
}

/// Optimiser state is made by the first update; temporaries come and go with each.
void Walk::update() {
  const Optimizer& o = *work_.optimizer;
  if (replica() || o.name == "none") return;
  const int64_t size = weights_ == Weights::half && half_ ? 2 : 4;
  std::vector<Id> temporary;
  for (const Layer& layer : layers_) {
    for (const Parameter& p : layer.parameters) {
      const int64_t bytes = times(share(p.elements, sharding_.state), size);
      for (int64_t s = 0; s < o.state && !state_; ++s) t_.make(bytes), state_bytes_ += bytes;
      if (half_ && weights_ == Weights::master && !shards_gradients()) temporary.push_back(t_.make(bytes));
    }
  }
  state_ = true;
  for (const Layer& layer : layers_) {
    for (const Parameter& p : layer.parameters) {
      if (in_.habits.update == MemoryHabits::Update::fused) continue;
      const Id id = t_.make(times(share(p.elements, sharding_.state), size));
      if (in_.habits.update == MemoryHabits::Update::foreach)
        temporary.push_back(id);
      else
        t_.drop(id);
    }
  }
  t_.drop_all(temporary);
}

void Walk::step() {
  const auto count = static_cast<uint32_t>(layers_.size());
  std::vector<Id> replicas;
  if (replica()) {
    for (const Layer& layer : layers_) {
      for (const Parameter& p : layer.parameters)
        replicas.push_back(t_.make(times(p.elements, parameter_size())));
    }
  }
  gradient_bytes_ = gradients_there_ ? gradient_bytes_ : 0;
  for (int64_t m = 0; m < std::min<int64_t>(2, in_.program->micro_batches);
       ++m) {  // all after the first are alike
    for (uint32_t i = 0; i < count; ++i) forward(i, false);
    if (!is_loss(count - 1)) {  // what is back-propagated is the sum of the output's elements
      keep_logits(count - 1);
      t_.drop(node_[count - 1].output);
      node_[count - 1].gradient = t_.make(bytes(count - 1));
    }
    for (uint32_t i = count; i-- > 0;) backward(i);
    t_.drop_all(in_flight_);
    t_.drop_all(variables_);
    t_.drop(units_[0].gathered);
    units_[0].gathered = kNone;
    gradients_there_ = true;
  }
  if (in_.gathers > 1) {  // the sums over all replicas, beside the master's own
    std::vector<Id> sums;
    for (const Layer& layer : layers_) {
      for (const Parameter& p : layer.parameters)
        sums.push_back(t_.make(times(p.elements, parameter_size())));
    }
    t_.drop_all(gradients_);
    gradients_ = std::move(sums);
  }
  update();
  if (!in_.habits.gradients_stay) free_gradients();
  t_.drop_all(replicas);
}

WalkResult Walk::run() {
  take_state();
  step();
  step();
  const CachingAllocator& a = t_.allocator;
  return {{parameter_bytes_}, {gradient_bytes_},  {state_bytes_},    {buffer_bytes_},
          in_.workspace,      a.peak_allocated(), a.peak_reserved(), a.exceeded()};
}

}  // namespace

WalkResult walk_memory(const WalkInput& input) { return Walk(input).run(); }

}  // namespace tandem::sim
