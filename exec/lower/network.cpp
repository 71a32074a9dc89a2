// SPDX-License-Identifier: Apache-2.0
#include "exec/lower/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace tandem::exec {

namespace {

constexpr TensorId kNone = UINT32_MAX;
constexpr int64_t kAlign = 16;  // elements: 64 bytes, a cache line and an AVX-512 register

int64_t aligned(int64_t elements) { return (elements + kAlign - 1) / kAlign * kAlign; }

/// First and last layer pass that touches a tensor; forward of layer i is pass i, backward 2 layers - 1 - i.
struct Life {
  int64_t first = INT64_MAX, last = -1;
  void touch(int64_t at) {
    first = std::min(first, at);
    last = std::max(last, at);
  }
};

/// Places for tensors so that those alive together do not overlap: the largest first, each at the lowest
/// place that is free for its whole life. O(n^2), n = tensors.
int64_t place(std::vector<Tensor>& tensors, const std::vector<TensorId>& which,
              const std::vector<Life>& life) {
  std::vector<TensorId> order = which;
  std::stable_sort(order.begin(), order.end(),
                   [&](TensorId a, TensorId b) { return tensors[a].words() > tensors[b].words(); });
  std::vector<TensorId> placed;  // by offset
  int64_t end = 0;
  for (const TensorId t : order) {
    const int64_t size = aligned(tensors[t].words());
    int64_t at = 0;
    for (const TensorId other : placed) {
      if (life[other].last < life[t].first || life[t].last < life[other].first) continue;
      if (tensors[other].offset >= at + size) break;
      at = std::max(at, tensors[other].offset + aligned(tensors[other].words()));
    }
    tensors[t].offset = at;
    end = std::max(end, at + size);
    const auto after = std::upper_bound(placed.begin(), placed.end(), at, [&](int64_t offset, TensorId o) {
      return offset < tensors[o].offset;
    });
    placed.insert(after, t);
  }
  return end;
}

}  // namespace

struct exec::Network::Impl {
  const Graph& graph;
  int64_t batch;
  bool training, halves;
  std::vector<Lowered> lowered;
  std::vector<Tensor> tensors;
  std::vector<std::vector<Call>> forward, backward;
  std::vector<LearnedTensor> learned;
  std::vector<TensorId> inputs, labels, losses;
  TensorId logits = kNone, output = kNone;
  int64_t parameters = 0, input_elements = 0, arena = 0;

  // While building.
  struct Node {
    bool learns = false;            ///< it or a layer before it has parameters
    std::vector<uint32_t> readers;  ///< once per edge
    TensorId out = kNone, d_out = kNone, parts = kNone;
    std::vector<TensorId> contributions;  ///< gradients that the readers hand back
    int64_t expected = 0;                 ///< of them; the parts of views count as one
    std::vector<Kernel> sums;             ///< kernels of the model that add them up
    std::vector<TensorId> parameters, gradients;
  };
  std::vector<Node> nodes;
  std::vector<TensorId> alias;  ///< of tensors: the one whose memory it is, or itself

  Impl(const Graph& g, int64_t n, bool trains, Precision precision)
      : graph(g),
        batch(n),
        training(trains),
        halves(element_bytes(precision) == 2),
        lowered(g.lower(n, precision)) {
    const auto& layers = graph.layers();
    forward.resize(layers.size());
    backward.resize(layers.size());
    nodes.resize(layers.size());
    for (uint32_t i = 0; i < layers.size(); ++i) prepare(i);
    for (uint32_t i = 0; i < layers.size(); ++i) expect(i);
    lay_out_parameters();
    for (uint32_t i = 0; i < layers.size(); ++i) build(i);
    for (uint32_t i = 0; i < layers.size(); ++i) add_up(i);
    settle_operands();
    if (logits != kNone) logits = root(logits);
    output = losses.empty() ? root(nodes.back().out) : losses.back();
    place_all();
  }

  TensorId add(TensorKind kind, int64_t elements, uint32_t layer) {
    tensors.push_back({kind, elements, 0, 0, false, layer});
    alias.push_back(static_cast<TensorId>(tensors.size() - 1));
    return alias.back();
  }
  TensorId add_activation(TensorKind kind, int64_t elements, uint32_t layer) {
    const TensorId t = add(kind, elements, layer);
    tensors[t].half = halves;
    return t;
  }
  void settle(Call& c) const {
    for (TensorId& t : c.operands) t = root(t);
    for (std::size_t k = 0; halves && k < c.operands.size(); ++k) {
      const Tensor& t = tensors[c.operands[k]];
      c.halves.push_back(t.half ? t.elements : 0);
      if (t.half && t.kind == TensorKind::gradient) c.gradients |= 1U << k;
    }
  }
  /// Samples arrive in 4 bytes: where layers read halves, a copy stands for each input. Made last, so that
  /// ids, and what is drawn by them, are the same in every precision.
  void settle_operands() {
    std::vector<TensorId> narrowed;
    for (const TensorId input : inputs) {
      if (!halves || tensors[input].integer) continue;
      narrowed.push_back(input);
      alias[input] = add_activation(TensorKind::activation, tensors[input].elements, tensors[input].layer);
    }
    for (auto* lists : {&forward, &backward}) {
      for (auto& list : *lists) {
        for (Call& c : list) settle(c);
      }
    }
    for (auto* list : {&labels, &losses}) {
      for (TensorId& t : *list) t = root(t);
    }
    for (const TensorId input : narrowed) {
      const TensorId to = alias[input];
      alias[input] = input;
      Call copy;
      copy.function = Function::copy;
      copy.operands = {to, input};
      copy.shape = {tensors[input].elements};
      copy.layer = tensors[input].layer;
      settle(copy);
      forward[copy.layer].push_back(copy);
    }
  }
  TensorId root(TensorId t) const {
    while (alias[t] != t) t = alias[t];
    return t;
  }
  int64_t whole(uint32_t layer) const {
    return checked_mul(batch, elements(graph.layers()[layer].output), "a tensor");
  }

  void prepare(uint32_t i) {
    const Layer& layer = graph.layers()[i];
    Node& node = nodes[i];
    node.learns = !layer.parameters.empty();
    for (const uint32_t from : layer.inputs) {
      node.learns = node.learns || nodes[from].learns;
      nodes[from].readers.push_back(i);
    }
  }

  /// The same count as Graph::lower makes, whose sum kernels are set aside here.
  void expect(uint32_t i) {
    Node& node = nodes[i];
    if (!node.learns) return;
    bool parts = false;
    for (const uint32_t reader : node.readers) {
      if (takes_part(reader, i))
        parts = true;
      else
        ++node.expected;
    }
    node.expected += parts ? 1 : 0;
    if (node.expected < 2) return;
    Lowered& l = lowered[i];
    auto& list = l.backward_data.empty() ? l.backward_weights : l.backward_data;
    TANDEM_CHECK(!list.empty() && list.front().repeat == node.expected - 1);
    Kernel one = list.front();
    one.repeat = 1;
    node.sums.assign(static_cast<std::size_t>(node.expected - 1), one);
    list.erase(list.begin());
  }

  bool takes_part(uint32_t reader, uint32_t from) const {
    return lowered[reader].in_place && whole(reader) < whole(from);
  }

  void lay_out_parameters() {
    const auto& layers = graph.layers();
    for (uint32_t i = static_cast<uint32_t>(layers.size()); i-- > 0;) {
      Node& node = nodes[i];
      const auto count = layers[i].parameters.size();
      node.parameters.resize(count);
      node.gradients.resize(count);
      for (std::size_t p = count; p-- > 0;) {
        const int64_t size = layers[i].parameters[p].elements;
        node.parameters[p] = add(TensorKind::parameter, size, i);
        node.gradients[p] = add(TensorKind::parameter_gradient, size, i);
        tensors[node.parameters[p]].offset = tensors[node.gradients[p]].offset = parameters;
        learned.push_back({node.parameters[p], node.gradients[p], i, static_cast<uint32_t>(p), 0, 0});
        parameters = checked_add(parameters, size, "the number of parameters");
      }
    }
  }

  void build(uint32_t i);

  /// Sums the readers' gradients in front of the layer's own backward pass; seeds the last layer's.
  void add_up(uint32_t i) {
    Node& node = nodes[i];
    if (node.d_out == kNone) return;
    std::vector<Call> calls;
    if (node.readers.empty()) {
      Call seed;
      seed.function = Function::fill;
      seed.pass = Pass::backward_data;
      seed.operands = {node.d_out};
      seed.shape = {whole(i)};
      seed.scalars = {1.0F / static_cast<float>(whole(i))};
      seed.layer = i;
      calls.push_back(seed);
    }
    for (std::size_t k = 1; k < node.contributions.size(); ++k) {
      Call sum;
      sum.function = Function::sum;
      sum.pass = Pass::backward_data;
      sum.operands = {node.d_out, k == 1 ? node.contributions[0] : node.d_out, node.contributions[k]};
      sum.shape = {whole(i)};
      if (k <= node.sums.size()) sum.kernels = {node.sums[k - 1]};
      sum.layer = i;
      calls.push_back(sum);
    }
    calls.insert(calls.end(), backward[i].begin(), backward[i].end());
    backward[i] = std::move(calls);
  }

  void place_all() {
    const auto layers = static_cast<int64_t>(graph.layers().size());
    std::vector<Life> life(tensors.size());
    for (int64_t i = 0; i < layers; ++i) {
      for (const Call& c : forward[static_cast<std::size_t>(i)]) {
        for (const TensorId t : c.operands) life[t].touch(i);
      }
      for (const Call& c : backward[static_cast<std::size_t>(i)]) {
        for (const TensorId t : c.operands) life[t].touch(2 * layers - 1 - i);
      }
    }
    std::vector<TensorId> movable;
    for (TensorId t = 0; t < tensors.size(); ++t) {
      if (alias[t] != t) continue;
      Tensor& x = tensors[t];
      switch (x.kind) {
        case TensorKind::input:
        case TensorKind::label:
          x.offset = input_elements;
          input_elements += aligned(x.elements);
          break;
        case TensorKind::parameter:
        case TensorKind::parameter_gradient:
          break;
        case TensorKind::buffer:
        case TensorKind::loss:
          life[t] = {0, 2 * layers};
          movable.push_back(t);
          break;
        case TensorKind::activation:
        case TensorKind::gradient:
          if (life[t].last >= 0) movable.push_back(t);
          break;
      }
    }
    arena = place(tensors, movable, life);
    for (TensorId t = 0; t < tensors.size(); ++t) tensors[t].offset = tensors[root(t)].offset;
  }
};

/// One layer's view of the network under construction.
class NetworkLayer : public LayerCalls {
 public:
  NetworkLayer(exec::Network::Impl& n, uint32_t index) : n_(n), index_(index), node_(n.nodes[index]) {}

  const Layer& layer() const override { return n_.graph.layers()[index_]; }
  const Lowered& lowered() const override { return n_.lowered[index_]; }
  int64_t batch() const override { return n_.batch; }
  bool training() const override { return n_.training; }
  const Shape& shape(std::size_t input) const override { return n_.graph.layers()[from(input)].output; }
  std::size_t inputs() const override { return layer().inputs.size(); }

  TensorId in(std::size_t input) override { return n_.nodes[from(input)].out; }
  TensorId out() override {
    if (node_.out == kNone) node_.out = n_.add_activation(TensorKind::activation, n_.whole(index_), index_);
    return node_.out;
  }
  bool out_is_in(bool overwrites) override {
    TANDEM_CHECK(node_.out == kNone && n_.whole(index_) == n_.whole(from(0)));
    out();
    if (overwrites && !may_overwrite()) return false;
    n_.alias[node_.out] = in(0);
    return true;
  }
  bool needs_d_in(std::size_t input) const override { return n_.nodes[from(input)].learns; }
  TensorId d_out() override {
    if (node_.d_out == kNone) node_.d_out = n_.add_activation(TensorKind::gradient, n_.whole(index_), index_);
    return node_.d_out;
  }
  TensorId d_in(std::size_t input) override {
    const uint32_t producer = from(input);
    auto& p = n_.nodes[producer];
    if (p.d_out == kNone) p.d_out = n_.add_activation(TensorKind::gradient, n_.whole(producer), producer);
    if (p.expected < 2) return p.d_out;
    p.contributions.push_back(n_.add_activation(TensorKind::gradient, n_.whole(producer), producer));
    return p.contributions.back();
  }
  void d_in_is_d_out(std::size_t input) override {
    auto& p = n_.nodes[from(input)];
    TANDEM_CHECK(n_.whole(index_) == n_.whole(from(input)));
    if (p.expected > 1) {
      p.contributions.push_back(d_out());
      if (p.d_out == kNone) p.d_out = n_.add_activation(TensorKind::gradient, n_.whole(index_), from(input));
    } else if (p.d_out == kNone) {
      p.d_out = d_out();
    } else {
      n_.alias[p.d_out] = d_out();
    }
  }
  TensorId d_in_part(std::size_t input, bool& adds) override {
    const uint32_t producer = from(input);
    auto& p = n_.nodes[producer];
    int64_t covered = 0;
    uint32_t last = index_;
    bool equal = true;  // equal parts lie side by side
    for (const uint32_t reader : p.readers) {
      if (!n_.takes_part(reader, producer)) continue;
      covered += n_.whole(reader);
      last = std::max(last, reader);
      equal = equal && n_.graph.layers()[reader].type->name == "split";
    }
    adds = !equal || covered != n_.whole(producer);
    if (p.parts != kNone) return p.parts;
    p.parts = d_in(input);
    if (!adds) return p.parts;
    Call clear;  // backward runs from the last reader to the first
    clear.function = Function::fill;
    clear.pass = Pass::backward_data;
    clear.operands = {p.parts};
    clear.shape = {n_.whole(producer)};
    clear.scalars = {0};
    clear.layer = last;
    n_.backward[last].insert(n_.backward[last].begin(), clear);
    return p.parts;
  }
  TensorId parameter(std::size_t index, float bound, float constant) override {
    const TensorId t = node_.parameters.at(index);
    for (LearnedTensor& l : n_.learned) {
      if (l.parameter == t) l.bound = bound, l.constant = constant;
    }
    return t;
  }
  TensorId gradient(std::size_t index) override { return node_.gradients.at(index); }
  TensorId tied(int64_t rows, int64_t width) override { return tie(rows, width).parameter; }
  TensorId tied_gradient() override { return tied_gradient_; }
  bool shared() const override {
    const auto& layers = n_.graph.layers();
    return std::any_of(layers.begin(), layers.end(), [&](const Layer& l) {
      return l.type != nullptr && l.type->name == "tied-linear" &&
             l.output.back() * width_of(l) == n_.tensors[node_.parameters.at(0)].elements;
    });
  }
  TensorId keep(int64_t elements, bool activation) override {
    return activation ? n_.add_activation(TensorKind::activation, elements, index_)
                      : n_.add(TensorKind::activation, elements, index_);
  }
  TensorId scratch(int64_t elements, bool activation) override { return keep(elements, activation); }
  TensorId buffer(int64_t elements, float initial) override {
    const TensorId t = n_.add(TensorKind::buffer, elements, index_);
    n_.tensors[t].initial = initial;
    return t;
  }
  TensorId label(int64_t elements, bool integer) override {
    n_.labels.push_back(n_.add(TensorKind::label, elements, index_));
    n_.tensors[n_.labels.back()].integer = integer;
    return n_.labels.back();
  }
  TensorId loss() override {
    n_.losses.push_back(n_.add(TensorKind::loss, 1, index_));
    n_.logits = in(0);
    return n_.losses.back();
  }
  void call(Call call) override {
    call.layer = index_;
    auto& list = call.pass == Pass::forward ? n_.forward[index_] : n_.backward[index_];
    list.push_back(std::move(call));
  }

 private:
  uint32_t from(std::size_t input) const { return layer().inputs.at(input); }

  /// Nobody but this layer reads the memory of its input, now or in a backward pass.
  bool may_overwrite() const {
    for (uint32_t i = from(0);; i = n_.graph.layers()[i].inputs[0]) {
      const auto& node = n_.nodes[i];
      if (node.readers.size() != 1 || n_.graph.layers()[i].type == nullptr) return false;
      if (n_.lowered[i].keeps_output) return false;
      if (n_.alias[node.out] == node.out) return true;  // made here; views before it share the memory
    }
  }

  int64_t width_of(const Layer& l) const { return n_.graph.layers()[l.inputs[0]].output.back(); }

  const LearnedTensor& tie(int64_t rows, int64_t width) {
    for (const LearnedTensor& l : n_.learned) {
      const Layer& owner = n_.graph.layers()[l.layer];
      if (owner.type->name != "embedding" || n_.tensors[l.parameter].elements != rows * width) continue;
      tied_gradient_ = l.gradient;
      return l;
    }
    throw InputError(layer().attributes.place(),
                     fmt::format("layer \"{}\" finds no embedding of {} x {} whose weight it could use",
                                 layer().name, rows, width));
  }

  exec::Network::Impl& n_;
  uint32_t index_;
  exec::Network::Impl::Node& node_;
  TensorId tied_gradient_ = kNone;
};

void exec::Network::Impl::build(uint32_t i) {
  const Layer& layer = graph.layers()[i];
  if (layer.type == nullptr) {
    nodes[i].out = add(TensorKind::input, whole(i), i);
    const auto reads_tokens = [&](uint32_t reader) {
      const auto* type = graph.layers()[reader].type;
      return type != nullptr && type->name == "embedding";
    };
    tensors[nodes[i].out].integer =
        std::any_of(nodes[i].readers.begin(), nodes[i].readers.end(), reads_tokens);
    inputs.push_back(nodes[i].out);
    return;
  }
  const LayerExecution* execution = passes_registry().find(layer.type->name);
  if (execution == nullptr) {
    throw InputError(layer.attributes.place(), fmt::format("layer \"{}\": type {} cannot be executed yet",
                                                           layer.name, layer.type->name));
  }
  NetworkLayer calls(*this, i);
  execution->build(calls);
  if (nodes[i].out == kNone && !layer.output.empty()) calls.out();
}

Network::Network(const Graph& graph, int64_t batch, bool training, Precision precision) {
  if (batch < 1) throw InputError(fmt::format("a batch of {} samples: at least 1 is needed", batch));
  impl_ = std::make_unique<Impl>(graph, batch, training, precision);
}
Network::~Network() = default;
Network::Network(Network&&) noexcept = default;

const Graph& Network::graph() const { return impl_->graph; }
int64_t Network::batch() const { return impl_->batch; }
const std::vector<Tensor>& Network::tensors() const { return impl_->tensors; }
const std::vector<Call>& Network::forward(uint32_t layer) const { return impl_->forward.at(layer); }
const std::vector<Call>& Network::backward(uint32_t layer) const { return impl_->backward.at(layer); }
const std::vector<LearnedTensor>& Network::learned() const { return impl_->learned; }
int64_t Network::parameters() const { return impl_->parameters; }
int64_t Network::input_elements() const { return impl_->input_elements; }
int64_t Network::arena() const { return impl_->arena; }
const std::vector<TensorId>& Network::inputs() const { return impl_->inputs; }
const std::vector<TensorId>& Network::labels() const { return impl_->labels; }
const std::vector<TensorId>& Network::losses() const { return impl_->losses; }
int64_t Network::values(TensorId input) const {
  for (const auto& calls : impl_->forward) {
    for (const Call& c : calls) {
      if (c.function == Function::embedding && c.operands[2] == input) return c.shape[2];
      if (c.function == Function::cross_entropy && c.operands[3] == input) return c.shape[1];
    }
  }
  return 1;
}
TensorId Network::output() const { return impl_->output; }
TensorId Network::logits() const { return impl_->logits; }

}  // namespace tandem::exec
