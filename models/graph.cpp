// SPDX-License-Identifier: Apache-2.0
#include "models/graph.h"

#include "models/autocast.h"
#include "models/division.h"

#include <fmt/format.h>

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/depth_first_search.hpp>
#include <filesystem>
#include <mutex>

#include "base/data.h"
#include "base/json_writer.h"
#include "base/options.h"
#include "models/fused_norm.h"
#include "models/import/importer.h"
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
        fmt::format("layer \"{}\" reads \"{}\", which needs the first: a cycle", reader.name, source.name));
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

/// An earlier layer's, which owns them (ALBERT).
bool shares_weights(const Layer& layer) { return Attributes(layer.attributes).boolean("shared", false); }
bool is_frozen(const Layer& layer) { return Attributes(layer.attributes).boolean("frozen", false); }

Lowered lower_layer(const std::vector<Layer>& layers, std::size_t index, int64_t batch, Precision precision,
                    const ModelSlice& sharing, bool first) {
  const Layer& layer = layers[index];
  std::vector<Shape> shapes;
  shapes.reserve(layer.inputs.size());
  for (const uint32_t i : layer.inputs) shapes.push_back(layers[i].output);
  const Attributes attributes(layer.attributes);
  const bool divided = sharing.ways > 1 && !layer.inputs.empty() && makes_part(layers, layer.inputs[0]);
  try {
    Lowered out = layer.type->lower({shapes, attributes, batch, precision, sharing.ways,
                                     sharing.sequence || sharing.samples, sharing.experts,
                                     sharing.whole_experts, sharing.capacity, sharing.context, divided,
                                     attributes.boolean("frozen", false), sharing.norm_devices});
    if (attributes.has("stored")) attributes.text("stored", "");
    attributes.boolean("shared", false);
    if (first) attributes.finish();
    return out;
  } catch (const InputError& error) {
    blame(layer, error);
  }
}

/// Bits an element of the formats in which weights that stay as they are may be stored (Dettmers et al. 2023,
/// arXiv 2305.14314, section 3: 4-bit values, a 32-bit scale for each 64 of them; or 8-bit scales, with a
/// 32-bit one for each 256 of these).
double stored_bits(const Layer& layer) {
  const Json* stored = layer.attributes.find("stored");
  if (stored == nullptr || layer.frozen.empty()) return 0;
  const std::string& name = stored->as_text();
  if (name == "nf4") return 4 + 32.0 / 64;
  if (name == "nf4-dq") return 4 + 8.0 / 64 + 32.0 / (64 * 256);
  if (name == "int8") return 8;
  stored->fail(
      fmt::format("no format \"{}\" for weights that stay. Valid: nf4, nf4-dq, int8", printable(name)));
}

void infer_shapes(std::vector<Layer>& layers, const ModelSlice& sharing) {
  std::size_t kernels = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    Layer& layer = layers[i];
    if (layer.type == nullptr) continue;
    Lowered lowered = lower_layer(layers, i, 1, Precision::fp32, sharing, true);
    for (const int64_t d : lowered.output) {
      if (d >= 1 && d <= kMaxDimension) continue;
      blame(layer, InputError(fmt::format("its output {} has a dimension outside 1 .. {}",
                                          to_text(lowered.output), kMaxDimension)));
    }
    kernels += lowered.forward.size() + lowered.backward_data.size() + lowered.backward_weights.size();
    if (kernels > kMaxKernels)
      blame(layer, InputError(fmt::format("the model has more than {} kernels", kMaxKernels)));
    const bool in_parts = (sharing.sequence || sharing.samples) && lowered.input_join == Join::none &&
                          lowered.output_join == Join::none;
    for (Parameter& p : lowered.parameters) p.in_parts = (p.in_parts || in_parts) && !p.dealt && !p.by_head;
    layer.output = std::move(lowered.output);
    layer.parameters = std::move(lowered.parameters);
    layer.frozen.clear();
    if (shares_weights(layer)) layer.parameters.clear();
    if (is_frozen(layer)) {  // all but adapters (models/layers/experts.cpp)
      const auto stays = [](const Parameter& p) { return !p.name.starts_with("adapter_"); };
      const auto learned = std::stable_partition(layer.parameters.begin(), layer.parameters.end(), stays);
      layer.frozen.assign(layer.parameters.begin(), learned);
      layer.parameters.erase(layer.parameters.begin(), learned);
    }
    layer.frozen_bits = stored_bits(layer);
    try {
      elements(layer.output);
      layer.parameter_elements();
    } catch (const InputError& error) {
      blame(layer, error);
    }
  }
  for (const Layer& loss : layers) {
    if (loss.type == nullptr || !loss.output.empty()) continue;
    for (const uint32_t logits : loss.inputs) {
      for (Parameter& p : layers[logits].parameters) p.hidden = 0;
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
  Dependencies graph;          ///< vertex i = layers[i]
  std::vector<bool> trained;   ///< [layer]: it or a layer before it has parameters
  std::vector<bool> received;  ///< [layer], of a slice
  int64_t parameters = 0;
  ModelSlice sharing;  ///< without its ranges
  /// The last slices of all layers that were asked for: pipeline stages are parts of one.
  static constexpr std::size_t kMostDivided = 16;
  mutable std::mutex lock;
  mutable std::vector<std::pair<ModelSlice, std::shared_ptr<const Impl>>> divided;

  Impl() = default;
  explicit Impl(ModelDescription model)
      : name(std::move(model.name)),
        summary(std::move(model.summary)),
        sample(std::move(model.sample)),
        published(std::move(model.published)),
        layers(std::move(model.layers)) {
    const uint32_t output = sort(layers, model.output);
    infer_shapes(layers, sharing);
    refuse_dead_layers(layers, output);
    for (const Layer& l : layers) {
      bool learns = !l.parameters.empty();
      for (const uint32_t i : l.inputs) learns = learns || trained[i];
      trained.push_back(learns);
    }
    connect();
  }

  void connect() {
    graph = dependencies(layers);
    for (const Layer& l : layers)
      parameters = checked_add(parameters, l.parameter_elements(), "the number of parameters");
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

Graph::Graph(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

namespace {

/// The document of a model's text: of a model file as it stands, of another format with `name` as its name.
Json document_of(std::string_view text, const std::string& file, const std::string& name) {
  for (const ModelImporter& importer : import_registry().all()) {
    if (!importer.recognises(text)) continue;
    Json document = importer.read(text, file);
    document.set("name", Json::make_text(name, document.place()));
    return document;
  }
  return Json::parse(text, file);
}

/// "Qwen3-1.7B" of Qwen3-1.7B.json and of Qwen3-1.7B/config.json.
std::string name_of_file(const std::string& file) {
  const std::filesystem::path path = std::filesystem::absolute(file);
  const std::string stem = path.stem().string(), folder = path.parent_path().filename().string();
  return stem == "config" && !folder.empty() ? folder : stem;
}

}  // namespace

Graph Graph::load(const std::string& name_or_file, const Place& place) {
  const Selection selection = parse_selection(name_or_file, place);
  const std::string path = find_data("models/zoo", "model", selection.name, place);
  const Json document =
      document_of(read_file(path), path == "-" ? "stdin" : path, name_of_file(selection.name));
  return Graph(std::make_unique<Impl>(read_model(document, selection.settings, place, layers_registry())));
}

Graph Graph::from_text(std::string_view text, const std::string& file) {
  return from_json(document_of(text, file, "config"));
}

Graph Graph::slice(const ModelSlice& slice) const {
  if (!slice.ranges.empty()) return Graph(sliced(slice));
  const auto known = [&]() -> std::shared_ptr<const Impl> {
    const std::lock_guard lock(impl_->lock);
    for (const auto& [division, part] : impl_->divided) {
      if (division == slice) return part;
    }
    return nullptr;
  };
  if (auto part = known()) return Graph(std::move(part));
  std::shared_ptr<const Impl> part = sliced(slice);
  const std::lock_guard lock(impl_->lock);
  if (impl_->divided.size() == Impl::kMostDivided) impl_->divided.erase(impl_->divided.begin());
  impl_->divided.emplace_back(slice, part);
  return Graph(std::move(part));
}

std::shared_ptr<const Graph::Impl> Graph::sliced(const ModelSlice& slice) const {
  auto part = std::make_shared<Impl>();
  part->name = impl_->name;
  part->summary = impl_->summary;
  part->sample = impl_->sample;
  part->trained = impl_->trained;
  part->sharing = slice;
  part->sharing.ranges.clear();
  part->sharing.sequence = slice.sequence && slice.ways > 1;
  part->sharing.keeps_inputs = slice.keeps_inputs && part->sharing.sequence;
  part->sharing.samples = slice.samples && slice.ways > 1;
  const bool divided = part->sharing == impl_->sharing;  // already
  if (divided) {
    part->layers = only(impl_->layers, slice, part->received);
  } else {
    part->layers = impl_->layers;
    divide_inputs(part->layers, part->sharing, impl_->sample, impl_->name);
    infer_shapes(part->layers, part->sharing);
    check_division(impl_->layers, part->layers, part->sharing, impl_->name);
  }
  for (uint32_t i = 0; i < part->layers.size(); ++i) {
    Layer& layer = part->layers[i];
    if (layer.type == nullptr || !slice.holds(i)) continue;
    const auto owner = tied_to(i);
    if (!owner || slice.holds(*owner)) continue;
    const int64_t tied = lower_layer(part->layers, i, 1, Precision::fp32, part->sharing, false).tied;
    auto& weights = is_frozen(layer) ? layer.frozen : layer.parameters;
    weights.insert(weights.begin(), {"weight", tied});
  }
  if (!divided) part->layers = only(part->layers, slice, part->received);
  part->connect();
  return part;
}

Graph Graph::of(ModelDescription model) { return Graph(std::make_unique<Impl>(std::move(model))); }

Graph Graph::from_json(const Json& document, const Registry<LayerType>& types) {
  return Graph(std::make_unique<Impl>(read_model(document, {}, {}, types)));
}

bool Graph::received(uint32_t layer) const { return !impl_->received.empty() && impl_->received[layer]; }
bool Graph::trained(uint32_t layer) const { return impl_->trained[layer]; }
int32_t Graph::shared_by() const { return impl_->sharing.ways; }
bool Graph::deals_experts() const { return impl_->sharing.experts > 1; }
bool Graph::divides_sequence() const { return impl_->sharing.sequence || impl_->sharing.context > 1; }
const ModelSlice& Graph::sharing() const { return impl_->sharing; }

std::optional<uint32_t> Graph::tied_to(uint32_t layer) const {
  const auto& layers = impl_->layers;
  const Layer& l = layers[layer];
  if (l.type == nullptr || l.type->name != "tied-linear") return {};
  const int64_t table = product({l.output.back(), layers[l.inputs[0]].output.back()});
  for (auto i = static_cast<uint32_t>(layers.size()); i-- > 0;) {
    const Layer& e = layers[i];
    if (e.type == nullptr || e.type->name != "embedding") continue;
    if (e.parameter_elements() + e.frozen_elements() == table) return i;
  }
  return {};
}

const std::string& Graph::name() const { return impl_->name; }
const std::string& Graph::summary() const { return impl_->summary; }
const std::vector<Layer>& Graph::layers() const { return impl_->layers; }
int64_t Graph::parameter_elements() const { return impl_->parameters; }
int64_t Graph::frozen_elements() const {
  int64_t sum = 0;
  for (const Layer& l : layers()) sum = checked_add(sum, l.frozen_elements(), "the number of parameters");
  return sum;
}
int64_t Graph::dealt_elements() const {
  int64_t sum = 0;
  for (const Layer& l : layers()) {
    for (const Parameter& p : l.parameters) sum += p.dealt ? p.elements : 0;
  }
  return sum;
}
const Sample& Graph::sample() const { return impl_->sample; }
const std::optional<Published>& Graph::published() const { return impl_->published; }

namespace {

/// Weights that are stored in fewer bits are written out, as the pass computes, wherever they are used.
void make_whole(const Layer& layer, Lowered& l, Precision precision) {
  const int64_t count = layer.frozen_elements(), size = element_bytes(precision);
  for (auto* kernels : {&l.forward, &l.backward_data}) {
    if (kernels->empty()) continue;
    Kernel k = elementwise(kernels == &l.forward ? Pass::forward : Pass::backward_data, count, 1, size, 2);
    k.read = layer.frozen_bytes(size);
    kernels->insert(kernels->begin(), std::move(k));
  }
}

}  // namespace

std::vector<Lowered> Graph::lower(int64_t batch, Precision precision) const {
  if (batch < 1) throw InputError(fmt::format("a batch of {} samples: at least 1 is needed", batch));
  const auto& layers = impl_->layers;
  std::vector<Lowered> out(layers.size());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].type == nullptr) {
      out[i].output = layers[i].output;
      continue;
    }
    out[i] = lower_layer(layers, i, batch, precision, impl_->sharing, false);
    bool learns = false;
    for (const uint32_t from : layers[i].inputs) learns = learns || impl_->trained[from];
    if (!learns) {
      // Of what the input's gradient waits for, the parameters' are still made.
      for (const Kernel& k : out[i].backward_data) {
        if (k.pass == Pass::backward_weights) out[i].backward_weights.push_back(k);
      }
      out[i].backward_data.clear();
      out[i].backward_exchanges.clear();
    }
    if (!impl_->trained[i] || (is_frozen(layers[i]) && layers[i].parameters.empty()))
      out[i].backward_weights.clear();
    if (layers[i].frozen_bits > 0) make_whole(layers[i], out[i], precision);
  }
  mark_fused(layers, impl_->sharing, out);
  for (const Layer& layer : layers) {
    if (layer.type == nullptr || !layer.output.empty()) continue;  // a loss
    for (const uint32_t logits : layer.inputs) {
      for (auto* kernels :
           {&out[logits].forward, &out[logits].backward_data, &out[logits].backward_weights}) {
        for (Kernel& k : *kernels) k.half = true;
      }
    }
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const int64_t sums = impl_->gradients(static_cast<uint32_t>(i), out) - 1;
    if (sums < 1 || !impl_->trained[i]) continue;
    const auto& inputs = layers[i].inputs;
    const bool hands_on =
        std::any_of(inputs.begin(), inputs.end(), [&](uint32_t from) { return impl_->trained[from]; });
    const bool leaf = !hands_on && !out[i].backward_weights.empty();
    auto& list = leaf ? out[i].backward_weights : out[i].backward_data;
    Kernel sum =
        elementwise(leaf ? Pass::backward_weights : Pass::backward_data,
                    checked_mul(batch, elements(layers[i].output), "a tensor"), 2, element_bytes(precision));
    sum.repeat = sums;
    list.insert(list.begin(), std::move(sum));
    for (Exchange& e : out[i].backward_exchanges) {
      ++e.after;
      ++e.before;
    }
  }
  mark_autocast(layers, batch, out);
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
