// SPDX-License-Identifier: Apache-2.0
#include "exec/lower/emitted_calls.h"

#include <fmt/format.h>

#include <algorithm>

#include "exec/lower/stored.h"

namespace tandem::exec {

namespace {

/// What a layer's calls were given so far.
struct LayerTensors {
  TensorId out = kNoTensor, d_out = kNoTensor;
  TensorId parts = kNoTensor;           ///< gradient that readers of parts share
  std::vector<TensorId> contributions;  ///< gradients that the readers hand back, where several do
  std::vector<TensorId> partial;        ///< those of readers that devices share, which make parts of a sum
  TensorId arriving = kNoTensor;        ///< from another device
  std::vector<ExchangedTensors> forward_exchanges, backward_exchanges;  ///< as SliceTensors'
  TensorId made = kNoTensor, made_gradient = kNoTensor, gathered = kNoTensor, gathered_again = kNoTensor,
           scattered = kNoTensor;  ///< as SliceTensors'
  std::vector<TensorId> parameters, gradients;
};

/// Of all layers while they are emitted one after the other.
struct Emission {
  const Graph& graph;
  const GradientFlow& flow;
  int64_t batch;
  bool training;
  const SliceUse& use;
  EmittedCalls out;
  std::vector<LayerTensors> layers;
};

void lay_out_parameter(Emission& e, uint32_t layer, std::size_t index) {
  TensorTable& tensors = e.out.tensors;
  LayerTensors& own = e.layers[layer];
  const int64_t size = e.graph.layers()[layer].parameters[index].elements;
  const TensorId t = own.parameters[index] = tensors.add(TensorKind::parameter, size, layer);
  own.gradients[index] = tensors.add(TensorKind::parameter_gradient, size, layer);
  tensors[t].offset = tensors[own.gradients[index]].offset = e.out.parameters;
  e.out.learned.push_back({t, own.gradients[index], layer, static_cast<uint32_t>(index), 0, 0});
  e.out.parameters = checked_add(e.out.parameters, size, "the number of parameters");
}

void lay_out_frozen(Emission& e, uint32_t layer, std::size_t index) {
  const Layer& l = e.graph.layers()[layer];
  const int64_t size = l.frozen[index].elements;
  LearnedTensor frozen{0, kNoTensor, layer, static_cast<uint32_t>(index), 0, 0, e.out.frozen_elements};
  if (l.frozen_bits > 0 && index == 0) {  // a bias stays as it is
    if (l.type->name != "linear" || e.graph.shared_by() > 1)
      throw InputError(l.attributes.place(),
                       fmt::format("layer \"{}\": weights stored in fewer bits are only "
                                   "simulated but of linear layers that no devices share",
                                   l.name));
    frozen.stored = stored_shape(size, l.output.back(), l.attributes.text("stored", ""));
  }
  const int64_t words = frozen.stored.empty() ? size : StoredShape(frozen.stored).words();
  frozen.parameter = e.layers[layer].parameters[index] = e.out.tensors.add(TensorKind::frozen, words, layer);
  e.out.tensors[frozen.parameter].offset = e.out.frozen_words;
  e.out.frozen.push_back(std::move(frozen));
  e.out.frozen_elements = checked_add(e.out.frozen_elements, size, "the number of parameters");
  e.out.frozen_words += words;
}

/// Last layer first, a layer's last tensor first, but tensors of dealt experts after all others.
void lay_out_parameters(Emission& e) {
  const auto& layers = e.graph.layers();
  for (const bool dealt : {false, true}) {
    for (uint32_t i = static_cast<uint32_t>(layers.size()); i-- > 0;) {
      const auto& parameters = layers[i].parameters;
      if (layers[i].type != nullptr && Attributes(layers[i].attributes).boolean("shared", false))
        throw InputError(layers[i].attributes.place(), "layers that share weights are only simulated");
      LayerTensors& own = e.layers[i];
      own.parameters.resize(parameters.size() + layers[i].frozen.size(), kNoTensor);
      own.gradients.resize(parameters.size(), kNoTensor);
      for (std::size_t p = parameters.size(); p-- > 0;) {
        if ((parameters[p].dealt && e.graph.deals_experts()) == dealt) lay_out_parameter(e, i, p);
      }
      for (std::size_t p = layers[i].frozen.size(); p-- > 0 && !dealt;) lay_out_frozen(e, i, p);
    }
  }
}

/// In front of all that the layer's backward pass does so far.
void put_in_front(Emission& e, uint32_t layer, const std::vector<Call>& calls) {
  std::vector<Call>& backward = e.out.backward[layer];
  backward.insert(backward.begin(), calls.begin(), calls.end());
  for (ExchangedTensors& x : e.layers[layer].backward_exchanges)
    x.before += static_cast<uint32_t>(calls.size()), x.awaited += static_cast<uint32_t>(calls.size());
}

/// One layer's view of what is emitted.
class LayerEmitter : public LayerCalls {
 public:
  LayerEmitter(Emission& emission, uint32_t index)
      : e_(emission), out_(emission.out), index_(index), own_(emission.layers[index]) {}

  const Layer& layer() const override { return e_.graph.layers()[index_]; }
  const Lowered& lowered() const override { return e_.flow.lowered[index_]; }
  int64_t batch() const override { return e_.batch; }
  float loss_weight() const override { return e_.use.loss_weight; }
  int64_t norm_samples() const override { return e_.use.norm_samples; }
  bool training() const override { return e_.training; }
  uint32_t partner() const override { return e_.use.partner; }
  uint32_t partners() const override { return static_cast<uint32_t>(e_.graph.shared_by()); }
  const ModelSlice& sharing() const override { return e_.graph.sharing(); }
  uint32_t context() const override { return e_.use.context; }
  int64_t whole_features(std::size_t input) const override {
    const Graph& whole = e_.use.whole != nullptr ? *e_.use.whole : e_.graph;
    return whole.layers()[from(input)].output.back();
  }
  const Shape& shape(std::size_t input) const override { return e_.graph.layers()[from(input)].output; }
  std::size_t inputs() const override { return layer().inputs.size(); }

  bool divides_sequence() const override { return e_.graph.divides_sequence(); }
  std::vector<PositionRun> positions(std::size_t input) const override;

  TensorId in(std::size_t input) override {
    LayerTensors& p = e_.layers[from(input)];
    return gathers() ? of_all(p.gathered, from(input), TensorKind::activation) : p.out;
  }
  TensorId in_again(std::size_t input) override {
    LayerTensors& p = e_.layers[from(input)];
    if (sharing().samples || sharing().keeps_inputs) return in(input);  // which is kept
    return gathers() ? of_all(p.gathered_again, from(input), TensorKind::activation) : p.out;
  }
  TensorId out() override {
    if (own_.out == kNoTensor)
      own_.out = out_.tensors.add_activation(TensorKind::activation, whole(index_), index_);
    return scatters() ? of_all(own_.made, index_, TensorKind::activation) : own_.out;
  }
  bool out_is_in(bool overwrites) override {
    TANDEM_CHECK(own_.out == kNoTensor && whole(index_) == whole(from(0)));
    out();
    if (overwrites && !may_overwrite()) return false;
    out_.tensors.join(own_.out, in(0));
    return true;
  }
  bool needs_d_in(std::size_t input) const override { return e_.flow.outputs[from(input)].learns; }
  TensorId d_out() override {
    if (own_.d_out == kNoTensor)
      own_.d_out = out_.tensors.add_activation(TensorKind::gradient, whole(index_), index_);
    return scatters() ? of_all(own_.made_gradient, index_, TensorKind::gradient) : own_.d_out;
  }
  TensorId d_in(std::size_t input) override {
    const uint32_t producer = from(input);
    LayerTensors& p = e_.layers[producer];
    if (gathers()) {
      TensorId part = kNoTensor;
      p.partial.push_back(of_all(part, producer, TensorKind::gradient));
      return part;
    }
    if (p.d_out == kNoTensor)
      p.d_out = out_.tensors.add_activation(TensorKind::gradient, whole(producer), producer);
    TensorId made = p.d_out;
    if (e_.flow.outputs[producer].gradients > 1) {
      made = out_.tensors.add_activation(TensorKind::gradient, whole(producer), producer);
      p.contributions.push_back(made);
    }
    if (lowered().input_join == Join::copy) p.partial.push_back(made);
    return made;
  }
  void d_in_is_d_out(std::size_t input) override {
    LayerTensors& p = e_.layers[from(input)];
    TANDEM_CHECK(whole(index_) == whole(from(input)));
    if (e_.flow.outputs[from(input)].gradients > 1) {
      p.contributions.push_back(d_out());
      if (p.d_out == kNoTensor)
        p.d_out = out_.tensors.add_activation(TensorKind::gradient, whole(index_), from(input));
    } else if (p.d_out == kNoTensor) {
      p.d_out = d_out();
    } else {
      out_.tensors.join(p.d_out, d_out());
    }
  }
  TensorId d_in_part(std::size_t input, bool& adds) override {
    const uint32_t producer = from(input);
    LayerTensors& p = e_.layers[producer];
    int64_t covered = 0;
    uint32_t last = index_;
    bool equal = true;  // equal parts lie side by side
    for (const uint32_t reader : e_.flow.outputs[producer].readers) {
      if (!e_.flow.takes_part(reader, producer)) continue;
      covered += whole(reader);
      last = std::max(last, reader);
      equal = equal && e_.graph.layers()[reader].type->name == "split";
    }
    adds = !equal || covered != whole(producer);
    if (p.parts != kNoTensor) return p.parts;
    p.parts = d_in(input);
    if (!adds) return p.parts;
    Call clear;  // backward runs from the last reader to the first
    clear.function = Function::fill;
    clear.pass = Pass::backward_data;
    clear.operands = {p.parts};
    clear.shape = {whole(producer)};
    clear.scalars = {0};
    clear.layer = last;
    put_in_front(e_, last, {clear});
    return p.parts;
  }
  TensorId parameter(std::size_t index, float bound, float constant) override {
    const TensorId t = own_.parameters.at(index);
    for (auto* list : {&out_.learned, &out_.frozen}) {
      for (LearnedTensor& l : *list) {
        if (l.parameter != t) continue;
        l.bound = bound;
        l.constant = constant;
        if (!l.stored.empty()) return restored(l);
      }
    }
    return t;
  }
  TensorId gradient(std::size_t index) override { return own_.gradients.at(index); }
  TensorId tied(int64_t rows, int64_t width) override { return tie(rows, width).parameter; }
  TensorId tied_gradient() override { return tied_gradient_; }
  bool shared() const override {
    const auto& layers = e_.graph.layers();
    return std::any_of(layers.begin(), layers.end(), [&](const Layer& l) {
      return l.type != nullptr && l.type->name == "tied-linear" &&
             l.output.back() * width_of(l) == out_.tensors[own_.parameters.at(0)].elements;
    });
  }
  TensorId keep(int64_t elements, bool activation) override {
    return activation ? out_.tensors.add_activation(TensorKind::activation, elements, index_)
                      : out_.tensors.add(TensorKind::activation, elements, index_);
  }
  TensorId scratch(int64_t elements, bool activation) override { return keep(elements, activation); }
  TensorId buffer(int64_t elements, float initial) override {
    const TensorId t = out_.tensors.add(TensorKind::buffer, elements, index_);
    out_.tensors[t].initial = initial;
    return t;
  }
  TensorId keep_integers(int64_t elements) override {
    const TensorId id = keep(elements, false);
    out_.tensors[id].integer = true;
    return id;
  }
  TensorId label(int64_t elements, bool integer) override {
    out_.labels.push_back(out_.tensors.add(TensorKind::label, elements, index_));
    out_.tensors[out_.labels.back()].integer = integer;
    return out_.labels.back();
  }
  TensorId loss() override {
    out_.losses.push_back(out_.tensors.add(TensorKind::loss, 1, index_));
    out_.logits = in(0);
    return out_.losses.back();
  }
  void exchange(Pass pass, ExchangedTensors what) override {
    const bool forward = pass == Pass::forward;
    what.before = static_cast<uint32_t>((forward ? out_.forward : out_.backward)[index_].size());
    what.awaited = what.before;
    (forward ? own_.forward_exchanges : own_.backward_exchanges).push_back(what);
  }
  void await(Pass pass, std::size_t exchange) override {
    const bool forward = pass == Pass::forward;
    (forward ? own_.forward_exchanges : own_.backward_exchanges).at(exchange).awaited =
        static_cast<uint32_t>((forward ? out_.forward : out_.backward)[index_].size());
  }
  void call(Call call) override {
    call.layer = index_;
    if (stored_ != nullptr && call.pass != Pass::forward) read_again(call);
    auto& list = call.pass == Pass::forward ? out_.forward[index_] : out_.backward[index_];
    list.push_back(std::move(call));
  }

 private:
  /// A weight that is stored in fewer bits, written out for the forward pass.
  TensorId restored(const LearnedTensor& l) {
    stored_ = &l;
    restored_ = write_out(Pass::forward, e_.flow.restores[index_].forward);
    return restored_;
  }
  TensorId write_out(Pass pass, std::vector<Kernel> kernels) {
    Call c;
    c.function = Function::restore;
    c.pass = pass;
    c.operands = {out_.tensors.add(TensorKind::activation, stored_->stored[0], index_), stored_->parameter};
    c.shape = stored_->stored;
    c.kernels = std::move(kernels);
    c.layer = index_;
    (pass == Pass::forward ? out_.forward : out_.backward)[index_].push_back(c);
    return c.operands[0];
  }
  /// A backward pass writes it out once more, rather than keep it.
  void read_again(Call& call) {
    for (TensorId& t : call.operands) {
      if (t != restored_) continue;
      if (again_ == kNoTensor) again_ = write_out(Pass::backward_data, e_.flow.restores[index_].backward);
      t = again_;
    }
  }
  int64_t whole(uint32_t layer) const { return e_.flow.outputs[layer].elements; }
  bool gathers() const { return lowered().input_join == Join::gather; }
  bool scatters() const { return lowered().output_join == Join::scatter; }
  /// `t`, or a new one, with what all partners have of a layer's output.
  TensorId of_all(TensorId& t, uint32_t layer, TensorKind kind) {
    if (t == kNoTensor) t = out_.tensors.add_activation(kind, whole(layer) * partners(), layer);
    return t;
  }
  uint32_t from(std::size_t input) const { return layer().inputs.at(input); }

  /// Nobody but this layer reads the memory of its input, now or in a backward pass.
  bool may_overwrite() const {
    for (uint32_t i = from(0);; i = e_.graph.layers()[i].inputs[0]) {
      const OutputFlow& output = e_.flow.outputs[i];
      if (output.readers.size() != 1 || output.sent || e_.graph.layers()[i].type == nullptr) return false;
      // What a block keeps for running forward again stays as it is.
      if (e_.use.recompute.blocks && block_of(e_.graph.layers()[i]) != block_of(layer())) return false;
      if (e_.flow.lowered[i].keeps_output) return false;
      if (out_.tensors.own(e_.layers[i].out)) return true;  // made here; views before it share the memory
    }
  }

  int64_t width_of(const Layer& l) const { return e_.graph.layers()[l.inputs[0]].output.back(); }

  const LearnedTensor& tie(int64_t rows, int64_t width) {
    const uint32_t owner = e_.graph.tied_to(index_).value_or(index_);
    for (const auto* list : {&out_.learned, &out_.frozen}) {
      for (const LearnedTensor& l : *list) {
        if (l.layer != owner || l.index != 0 || out_.tensors[l.parameter].elements != rows * width) continue;
        tied_gradient_ = l.gradient;
        return l;
      }
    }
    throw InputError(layer().attributes.place(),
                     fmt::format("layer \"{}\" finds no embedding of {} x {} whose weight it could use",
                                 layer().name, rows, width));
  }

  Emission& e_;
  EmittedCalls& out_;
  uint32_t index_;
  LayerTensors& own_;
  TensorId tied_gradient_ = kNoTensor;
  const LearnedTensor* stored_ = nullptr;              ///< a weight in fewer bits, ...
  TensorId restored_ = kNoTensor, again_ = kNoTensor;  ///< ... written out for forward, and for backward
};

std::vector<PositionRun> LayerEmitter::positions(std::size_t input) const {
  const Graph& model = e_.use.whole != nullptr ? *e_.use.whole : e_.graph;
  const int64_t contexts = sharing().context, own = shape(input)[0];
  const int64_t time = model.layers()[from(input)].output[0] / contexts;
  const int64_t rows = e_.batch * own, first = own < time ? partner() * rows : 0;
  const int64_t chunk = contexts > 1 ? time / 2 : time;
  std::vector<PositionRun> out;
  for (int64_t r = 0; r < rows;) {
    const int64_t at = (first + r) % time, count = std::min(rows - r, chunk - at % chunk);
    out.push_back({r, position_in_sequence(at, time, context(), contexts), count});
    r += count;
  }
  return out;
}

void emit_input(Emission& e, uint32_t i) {
  const OutputFlow& output = e.flow.outputs[i];
  if (e.graph.received(i)) {
    e.layers[i].out = e.out.tensors.add_activation(TensorKind::activation, output.elements, i);
    return;
  }
  if (output.readers.empty()) return;  // outside of the slice
  const TensorId t = e.layers[i].out = e.out.tensors.add(TensorKind::input, output.elements, i);
  const auto reads_tokens = [&](uint32_t reader) {
    const auto* type = e.graph.layers()[reader].type;
    return type != nullptr && type->name == "embedding";
  };
  e.out.tensors[t].integer = std::any_of(output.readers.begin(), output.readers.end(), reads_tokens);
  e.out.inputs.push_back(t);
}

void emit_layer(Emission& e, uint32_t i) {
  const Layer& layer = e.graph.layers()[i];
  if (layer.type == nullptr) return emit_input(e, i);
  const LayerExecution* execution = passes_registry().find(layer.type->name);
  if (execution == nullptr) {
    throw InputError(layer.attributes.place(), fmt::format("layer \"{}\": type {} cannot be executed yet",
                                                           layer.name, layer.type->name));
  }
  LayerEmitter calls(e, i);
  execution->build(calls);
  if (e.layers[i].out == kNoTensor && !layer.output.empty()) calls.out();
}

Call sum_of(TensorId to, TensorId a, TensorId b, int64_t elements, uint32_t layer) {
  Call sum;
  sum.function = Function::sum;
  sum.pass = Pass::backward_data;
  sum.operands = {to, a, b};
  sum.shape = {elements};
  sum.layer = layer;
  return sum;
}

/// The gradient that comes from another device.
void expect_arrival(Emission& e, uint32_t i) {
  const OutputFlow& output = e.flow.outputs[i];
  LayerTensors& own = e.layers[i];
  if (!output.sent || !output.learns) return;
  if (own.d_out == kNoTensor)
    own.d_out = e.out.tensors.add_activation(TensorKind::gradient, output.elements, i);
  own.arriving = own.d_out;
  if (output.gradients < 2) return;
  own.arriving = e.out.tensors.add_activation(TensorKind::gradient, output.elements, i);
  own.contributions.push_back(own.arriving);
}

/// The part of a sum over partners that this device goes on with.
void expect_scattered(Emission& e, uint32_t i) {
  LayerTensors& own = e.layers[i];
  const auto share = [&] {
    return e.out.tensors.add_activation(TensorKind::gradient, e.flow.outputs[i].elements, i);
  };
  if (own.d_out == kNoTensor) own.d_out = share();
  own.scattered = own.contributions.empty() ? own.d_out : share();
  if (!own.contributions.empty()) own.contributions.push_back(own.scattered);
}

/// What is still to be summed over devices is one contribution, there when the first reader's backward pass,
/// which is the last to run, has ended.
void join_partial(Emission& e, uint32_t i) {
  LayerTensors& own = e.layers[i];
  if (own.partial.empty()) return;
  uint32_t last = UINT32_MAX;
  for (const uint32_t reader : e.flow.outputs[i].readers) {
    if (e.flow.lowered[reader].input_join != Join::none) last = std::min(last, reader);
  }
  const bool scatters = e.flow.lowered[last].input_join == Join::gather;
  for (std::size_t k = 1; k < own.partial.size(); ++k) {
    e.out.backward[last].push_back(
        sum_of(own.partial[0], own.partial[0], own.partial[k], e.out.tensors[own.partial[0]].elements, last));
    std::erase(own.contributions, own.partial[k]);
  }
  if (scatters) return expect_scattered(e, i);
  if (own.partial.size() > 1 && own.contributions.size() == 1) e.out.tensors.join(own.d_out, own.partial[0]);
}

/// Sums the readers' gradients in front of the layer's own backward pass; seeds the last layer's.
void add_up(Emission& e, uint32_t i) {
  expect_arrival(e, i);
  join_partial(e, i);
  const LayerTensors& own = e.layers[i];
  if (own.d_out == kNoTensor) return;
  const OutputFlow& output = e.flow.outputs[i];
  std::vector<Call> calls;
  if (output.readers.empty() && !output.sent) {
    Call seed;
    seed.function = Function::fill;
    seed.pass = Pass::backward_data;
    seed.operands = {own.d_out};
    seed.shape = {output.elements};
    seed.scalars = {1.0F / static_cast<float>(output.elements)};
    seed.layer = i;
    calls.push_back(seed);
  }
  // Part of the pass that the model counts these sums to: where only parameters' gradients follow, of theirs.
  const auto& inputs = e.graph.layers()[i].inputs;
  const bool weights =
      !e.flow.lowered[i].backward_weights.empty() &&
      std::none_of(inputs.begin(), inputs.end(), [&](uint32_t from) { return e.flow.outputs[from].learns; });
  for (std::size_t k = 1; k < own.contributions.size(); ++k) {
    calls.push_back(sum_of(own.d_out, k == 1 ? own.contributions[0] : own.d_out, own.contributions[k],
                           output.elements, i));
    if (weights) calls.back().pass = Pass::backward_weights;
    if (k <= output.sums.size()) calls.back().kernels = {output.sums[k - 1]};
  }
  put_in_front(e, i, calls);
}

}  // namespace

TensorId TensorTable::add(TensorKind kind, int64_t elements, uint32_t layer) {
  tensors_.push_back({kind, elements, 0, 0, false, layer});
  alias_.push_back(static_cast<TensorId>(tensors_.size() - 1));
  return alias_.back();
}

TensorId TensorTable::add_activation(TensorKind kind, int64_t elements, uint32_t layer) {
  const TensorId t = add(kind, elements, layer);
  tensors_[t].half = half_;
  return t;
}

TensorId TensorTable::root(TensorId t) const {
  while (alias_[t] != t) t = alias_[t];
  return t;
}

EmittedCalls emit_calls(const Graph& graph, const GradientFlow& flow, int64_t batch, bool training, bool half,
                        const SliceUse& use) {
  const auto layers = static_cast<uint32_t>(graph.layers().size());
  Emission e{graph, flow, batch, training, use, EmittedCalls(half), std::vector<LayerTensors>(layers)};
  e.out.forward.resize(layers);
  e.out.backward.resize(layers);
  e.out.recompute.resize(layers);
  e.out.elsewhere.resize(layers);
  lay_out_parameters(e);
  for (uint32_t i = 0; i < layers; ++i) emit_layer(e, i);
  for (uint32_t i = 0; i < layers; ++i) add_up(e, i);
  for (const LayerTensors& l : e.layers)
    e.out.slice.push_back({l.out, l.d_out, l.arriving, l.partial.empty() ? kNoTensor : l.partial[0],
                           l.forward_exchanges, l.backward_exchanges, l.made, l.made_gradient, l.gathered,
                           l.gathered_again, l.scattered});
  e.out.output = e.layers.back().out;
  return std::move(e.out);
}

}  // namespace tandem::exec
