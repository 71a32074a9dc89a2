// SPDX-License-Identifier: Apache-2.0
#include "models/dot.h"

#include <fmt/format.h>

#include <map>
#include <set>

namespace tandem::models {

namespace {

std::string escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

/// One node of the picture: one layer, or all of a block and its equal followers.
struct Node {
  std::string first, last;  ///< names
  std::string what;         ///< type, or "12 layers"
  std::string signature;    ///< equal for blocks that look the same
  Shape output;
  int64_t layers = 0, times = 1, parameters = 0;
  Flops forward;
  bool input = false;
};

/// The block `depth` levels from the outside that a layer belongs to: at depth 1 "h.11.attention" gives
/// "h.11" and "stage1.first.conv1" gives "stage1"; a layer in fewer blocks is its own.
std::string block_of(const std::string& name, std::size_t depth) {
  std::size_t end = 0;
  for (std::size_t level = 0; level < depth; ++level) {
    end = name.find('.', end);
    if (end == std::string::npos) return name;
    std::size_t digits = end + 1;
    while (digits < name.size() && name[digits] >= '0' && name[digits] <= '9') ++digits;
    if (digits > end + 1 && digits < name.size() && name[digits] == '.') end = digits;  // a round of a repeat
    if (level + 1 < depth) ++end;
  }
  return name.substr(0, end);
}

class Picture {
 public:
  explicit Picture(const Graph& graph) : graph_(graph), lowered_(graph.lower(1, Precision::fp32)) {
    if (graph.layers().size() <= kDotLayers) {
      draw(SIZE_MAX);
    } else {
      std::size_t depth = 5;
      do draw(depth--);
      while (nodes_.size() > kDotNodes && depth > 0);
    }
    connect();
  }

  std::string text() const {
    std::string out = fmt::format(
        "digraph \"{}\" {{\n  label=\"{}: {} parameters, {} forward per sample\";\n  labelloc=t;\n"
        "  node [shape=box, style=rounded, fontname=\"Helvetica\", fontsize=10];\n",
        escape(graph_.name()), escape(graph_.name()),
        count_text(static_cast<double>(graph_.parameter_elements())), to_text(graph_.forward_flops()));
    for (std::size_t i = 0; i < nodes_.size(); ++i) out += line(i);
    for (const auto& [from, to] : edges_) out += fmt::format("  n{} -> n{};\n", from, to);
    return out + "}\n";
  }

 private:
  /// One node per block at that depth.
  void draw(std::size_t depth) {
    nodes_.clear();
    node_of_key_.clear();
    node_of_layer_.clear();
    for (std::size_t i = 0; i < graph_.layers().size(); ++i) {
      const Layer& layer = graph_.layers()[i];
      add(depth == SIZE_MAX ? layer.name : block_of(layer.name, depth), layer, lowered_[i]);
    }
    if (depth != SIZE_MAX) merge_runs();
  }

  void add(const std::string& key, const Layer& layer, const Lowered& lowered) {
    const auto [at, fresh] = node_of_key_.emplace(key, nodes_.size());
    if (fresh) {
      nodes_.push_back({});
      nodes_.back().first = nodes_.back().last = key;
    }
    Node& n = nodes_[at->second];
    ++n.layers;
    n.input = layer.type == nullptr;
    n.what = n.layers > 1 ? fmt::format("{} layers", n.layers)
             : n.input    ? "input"
                          : std::string(layer.type->name);
    n.output = layer.output;
    n.parameters += layer.parameter_elements();
    n.forward += matrix_flops(lowered);
    n.signature += fmt::format("{}:{}:{};", n.what, to_text(layer.output), layer.parameter_elements());
    node_of_layer_.push_back(at->second);
  }

  /// Blocks that follow each other and look the same become one node.
  void merge_runs() {
    std::vector<Node> merged;
    std::vector<std::size_t> now(nodes_.size());
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      Node& n = nodes_[i];
      if (!merged.empty() && n.layers > 1 && merged.back().signature == n.signature) {
        ++merged.back().times;
        merged.back().last = n.first;
      } else {
        merged.push_back(std::move(n));
      }
      now[i] = merged.size() - 1;
    }
    nodes_ = std::move(merged);
    for (std::size_t& n : node_of_layer_) n = now[n];
  }

  void connect() {
    for (std::size_t i = 0; i < node_of_layer_.size(); ++i) {
      for (const uint32_t from : graph_.layers()[i].inputs) {
        if (node_of_layer_[from] != node_of_layer_[i])
          edges_.emplace(node_of_layer_[from], node_of_layer_[i]);
      }
    }
  }

  std::string line(std::size_t i) const {
    const Node& n = nodes_[i];
    std::string label = escape(n.first);
    if (n.times > 1) label += fmt::format(" .. {} (x {})", escape(n.last), n.times);
    label += fmt::format("\\n{} {}", n.what, to_text(n.output));
    const char* each = n.times > 1 ? " each" : "";
    if (n.parameters > 0)
      label += fmt::format("\\n{} parameters{}", count_text(static_cast<double>(n.parameters)), each);
    if (n.forward.n > 0) label += fmt::format("\\n{}{}", to_text(n.forward), each);
    return fmt::format("  n{} [label=\"{}\"{}];\n", i, label, n.input ? ", shape=ellipse, style=solid" : "");
  }

  const Graph& graph_;
  const std::vector<Lowered> lowered_;
  std::vector<Node> nodes_;
  std::map<std::string, std::size_t> node_of_key_;
  std::vector<std::size_t> node_of_layer_;
  std::set<std::pair<std::size_t, std::size_t>> edges_;
};

}  // namespace

std::string model_dot(const Graph& graph) { return Picture(graph).text(); }

}  // namespace tandem::models
