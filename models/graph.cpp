// SPDX-License-Identifier: Apache-2.0
#include "models/graph.h"

#include <fmt/format.h>

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/depth_first_search.hpp>

#include "base/data.h"
#include "base/options.h"
#include "models/reader.h"

namespace tandem::models {

namespace {

/// An edge leads from a layer to one it reads: depth-first search then finishes producers first.
using Dependencies = boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS>;

Dependencies dependencies(const std::vector<Layer>& layers) {
  Dependencies out(layers.size());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    for (const uint32_t from : layers[i].inputs) boost::add_edge(i, from, out);
  }
  return out;
}

/// Topological order as boost::topological_sort makes it, but naming the layers of a cycle.
class Order : public boost::default_dfs_visitor {
 public:
  Order(const std::vector<Layer>& layers, std::vector<uint32_t>* order) : layers_(&layers), order_(order) {}
  void back_edge(Dependencies::edge_descriptor e, const Dependencies& g) const {
    const Layer& reader = (*layers_)[boost::source(e, g)];
    const Layer& source = (*layers_)[boost::target(e, g)];
    throw InputError(
        reader.attributes.place(),
        fmt::format("layer \"{}\" reads \"{}\", which needs it in turn: a cycle", reader.name, source.name));
  }
  void finish_vertex(Dependencies::vertex_descriptor v, const Dependencies&) const {
    order_->push_back(static_cast<uint32_t>(v));
  }

 private:
  const std::vector<Layer>* layers_;
  std::vector<uint32_t>* order_;
};

/// Sorts producers before consumers. Roots are taken in file order, so a file without forward references
/// keeps its order. Returns where the old index `output` went.
uint32_t sort(std::vector<Layer>& layers, uint32_t output) {
  const Dependencies graph = dependencies(layers);
  std::vector<uint32_t> order;
  order.reserve(layers.size());
  boost::depth_first_search(graph, boost::visitor(Order(layers, &order)));
  std::vector<uint32_t> now(layers.size());
  for (std::size_t i = 0; i < order.size(); ++i) now[order[i]] = static_cast<uint32_t>(i);
  std::vector<Layer> sorted;
  sorted.reserve(layers.size());
  for (const uint32_t old : order) {
    sorted.push_back(std::move(layers[old]));
    for (uint32_t& i : sorted.back().inputs) i = now[i];
  }
  layers = std::move(sorted);
  return now[output];
}

/// The error with its place, if it lacked one, and the layer it is about.
[[noreturn]] void blame(const Layer& layer, const InputError& error) {
  const Place& place = layer.attributes.place();
  std::string what = error.what();
  if (place.file != nullptr && !what.starts_with(*place.file))
    what = fmt::format("{}: {}", place.text(), what);
  throw InputError(fmt::format("{} (layer \"{}\", type {})", what, layer.name, layer.type->name));
}

Lowered lower_layer(const std::vector<Layer>& layers, std::size_t index, int64_t batch, Precision precision,
                    bool first) {
  const Layer& layer = layers[index];
  std::vector<Shape> shapes;
  shapes.reserve(layer.inputs.size());
  for (const uint32_t i : layer.inputs) shapes.push_back(layers[i].output);
  const Attributes attributes(layer.attributes);
  try {
    Lowered out = layer.type->lower({shapes, attributes, batch, precision});
    if (first) attributes.finish();
    return out;
  } catch (const InputError& error) {
    blame(layer, error);
  }
}

void infer_shapes(std::vector<Layer>& layers) {
  std::size_t kernels = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    Layer& layer = layers[i];
    if (layer.type == nullptr) continue;
    Lowered lowered = lower_layer(layers, i, 1, Precision::fp32, true);
    for (const int64_t d : lowered.output) {
      if (d >= 1 && d <= kMaxDimension) continue;
      blame(layer, InputError(fmt::format("its output {} has a dimension outside 1 .. {}",
                                          to_text(lowered.output), kMaxDimension)));
    }
    kernels += lowered.forward.size() + lowered.backward_data.size() + lowered.backward_weights.size();
    if (kernels > kMaxKernels)
      blame(layer, InputError(fmt::format("the model has more than {} kernels", kMaxKernels)));
    layer.output = std::move(lowered.output);
    layer.parameters = std::move(lowered.parameters);
    try {
      elements(layer.output);
      layer.parameter_elements();
    } catch (const InputError& error) {
      blame(layer, error);
    }
  }
}

/// Every layer must be read by another, be the model's output, or be a loss (its output is a scalar).
void refuse_dead_layers(const std::vector<Layer>& layers, uint32_t output) {
  std::vector<bool> read(layers.size(), false);
  read[output] = true;
  for (const Layer& l : layers) {
    for (const uint32_t i : l.inputs) read[i] = true;
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const Layer& l = layers[i];
    if (read[i] || (l.type != nullptr && l.output.empty())) continue;
    throw InputError(l.attributes.place(),
                     l.type == nullptr
                         ? fmt::format("nothing reads the input \"{}\"", l.name)
                         : fmt::format("nothing reads the output of layer \"{}\" (type {}), and it is "
                                       "neither the last layer nor a loss",
                                       l.name, l.type->name));
  }
}

}  // namespace

struct Graph::Impl {
  std::string name, summary;
  Sample sample;
  std::optional<Published> published;
  std::vector<Layer> layers;
  Dependencies graph;         ///< vertex i = layers[i]
  std::vector<bool> trained;  ///< [layer]: it or a layer before it has parameters
  int64_t parameters = 0;

  explicit Impl(ModelDescription model)
      : name(std::move(model.name)),
        summary(std::move(model.summary)),
        sample(std::move(model.sample)),
        published(std::move(model.published)),
        layers(std::move(model.layers)) {
    const uint32_t output = sort(layers, model.output);
    infer_shapes(layers);
    refuse_dead_layers(layers, output);
    graph = dependencies(layers);
    for (const Layer& l : layers) {
      bool learns = !l.parameters.empty();
      for (const uint32_t i : l.inputs) learns = learns || trained[i];
      trained.push_back(learns);
      parameters = checked_add(parameters, l.parameter_elements(), "the number of parameters");
    }
  }

  /// Gradients that come back to a layer: one per reader, but the parts that views (split, slice) take are
  /// written side by side into one.
  int64_t gradients(uint32_t layer, const std::vector<Lowered>& lowered) const {
    int64_t whole = 0;
    bool parts = false;
    for (const auto& e : boost::make_iterator_range(boost::in_edges(layer, graph))) {
      const std::size_t reader = boost::source(e, graph);
      const bool view =
          lowered[reader].in_place && elements(layers[reader].output) < elements(layers[layer].output);
      if (view)
        parts = true;
      else
        ++whole;
    }
    return whole + (parts ? 1 : 0);
  }
};

Graph::Graph(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Graph::~Graph() = default;
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;

Graph Graph::load(const std::string& name_or_file, const Place& place) {
  const Selection selection = parse_selection(name_or_file, place);
  const Json document = Json::load(find_data("models/zoo", "model", selection.name, place));
  return Graph(std::make_unique<Impl>(read_model(document, selection.settings, place, layers_registry())));
}

Graph Graph::from_json(const Json& document, const Registry<LayerType>& types) {
  return Graph(std::make_unique<Impl>(read_model(document, {}, {}, types)));
}

const std::string& Graph::name() const { return impl_->name; }
const std::string& Graph::summary() const { return impl_->summary; }
const std::vector<Layer>& Graph::layers() const { return impl_->layers; }
int64_t Graph::parameter_elements() const { return impl_->parameters; }
const Sample& Graph::sample() const { return impl_->sample; }
const std::optional<Published>& Graph::published() const { return impl_->published; }

std::vector<Lowered> Graph::lower(int64_t batch, Precision precision) const {
  if (batch < 1) throw InputError(fmt::format("a batch of {} samples: at least 1 is needed", batch));
  const auto& layers = impl_->layers;
  std::vector<Lowered> out(layers.size());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].type == nullptr) {
      out[i].output = layers[i].output;
      continue;
    }
    out[i] = lower_layer(layers, i, batch, precision, false);
    bool learns = false;
    for (const uint32_t from : layers[i].inputs) learns = learns || impl_->trained[from];
    if (!learns) out[i].backward_data.clear();
    if (!impl_->trained[i]) out[i].backward_weights.clear();
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const int64_t sums = impl_->gradients(static_cast<uint32_t>(i), out) - 1;
    if (sums < 1 || !impl_->trained[i]) continue;
    const bool leaf = out[i].backward_data.empty() && !out[i].backward_weights.empty();
    auto& list = leaf ? out[i].backward_weights : out[i].backward_data;
    Kernel sum =
        elementwise(leaf ? Pass::backward_weights : Pass::backward_data,
                    checked_mul(batch, elements(layers[i].output), "a tensor"), 2, element_bytes(precision));
    sum.repeat = sums;
    list.insert(list.begin(), std::move(sum));
  }
  return out;
}

int64_t Graph::tokens_per_sample() const {
  if (sample().unit != "sequences") return 0;
  for (const Layer& l : layers()) {
    if (l.type == nullptr && l.name == "tokens") return elements(l.output);
  }
  return 0;
}

Flops Graph::forward_flops() const {
  Flops sum;
  for (const Lowered& l : lower(1, Precision::fp32)) sum += matrix_flops(l);
  return sum;
}

Flops matrix_flops(const Lowered& lowered) {
  Flops sum;
  for (const Kernel& k : lowered.forward) {
    if (k.kind == KernelKind::gemm || k.kind == KernelKind::conv) sum += k.flops * k.repeat;
    if (k.kind == KernelKind::attention) sum += k.flops * (k.shape[6] == 1 ? 2 : 1);
  }
  return sum;
}

std::vector<ModelEntry> list_models() {
  std::vector<ModelEntry> out;
  for (const std::string& name : list_data("models/zoo")) {
    out.push_back({name, Json::load(find_data("models/zoo", "model", name)).text("summary", "")});
  }
  return out;
}

}  // namespace tandem::models
