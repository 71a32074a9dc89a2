// SPDX-License-Identifier: Apache-2.0
#include "schemes/setup/recompute.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace tandem::schemes {

namespace {

constexpr std::array<std::pair<std::string_view, bool Recompute::*>, 3> kParts = {
    {{"norms", &Recompute::norms},
     {"activations", &Recompute::activations},
     {"attention", &Recompute::attention}}};

using Cheap = Lowered::Cheap;

}  // namespace

bool Recompute::drops_output(const Lowered& lowered) const {
  if (lowered.in_place) return false;
  return (norms && lowered.cheap == Cheap::norm) || (activations && lowered.cheap == Cheap::activation);
}

bool Recompute::drops_own(const Lowered& lowered, const OwnTensor& own) const {
  return (attention && lowered.cheap == Cheap::attention) || (activations && own.remade);
}

std::string Recompute::text() const {
  if (blocks) return products ? "products" : "blocks";
  std::vector<std::string_view> parts;
  for (const auto& [word, part] : kParts) {
    if (this->*part) parts.push_back(word);
  }
  return parts.empty() ? "off" : fmt::format("{}", fmt::join(parts, "+"));
}

Recompute parse_recompute(std::string_view text, const Place& place) {
  Recompute out;
  if (text == "off") return out;
  if (text == "blocks") return {.blocks = true};
  if (text == "products") return {.blocks = true, .products = true};
  for (const std::string& word : split(text, '+')) {
    const auto at =
        std::find_if(kParts.begin(), kParts.end(), [&](const auto& p) { return p.first == word; });
    if (at == kParts.end())
      throw InputError(
          place, fmt::format(
                     "nothing named \"{}\" is computed again.{} Valid: off, blocks, products, or some of "
                     "norms, activations and attention, joined by +",
                     printable(word),
                     did_you_mean(word, {"off", "blocks", "products", "norms", "activations", "attention"})));
    out.*at->second = true;
  }
  return out;
}

std::vector<LayerRange> blocks_again(const Recompute& recompute, const Graph& graph, LayerRange layers) {
  std::vector<LayerRange> out;
  if (!recompute.blocks) return out;
  for (uint32_t i = layers.first; i < layers.end();) {
    const std::string_view block = block_of(graph.layers()[i]);
    LayerRange run{i, 0};
    bool learns = false;
    for (; i < layers.end() && block_of(graph.layers()[i]) == block; ++i, ++run.layers)
      learns = learns || graph.trained(i);
    if (!block.empty() && learns) out.push_back(run);
  }
  return out;
}

namespace {

/// Of the output of a linear layer those parts that are separate products.
std::vector<double> parts_of_product(const std::vector<Layer>& layers, uint32_t i) {
  for (std::size_t j = i + 1; j < layers.size(); ++j) {
    const Layer& reader = layers[j];
    if (std::count(reader.inputs.begin(), reader.inputs.end(), i) == 0) continue;
    if (reader.type->name != "attention" || reader.inputs.size() != 1) break;
    const double heads = static_cast<double>(reader.attributes.integer("heads", 1)),
                 kv = static_cast<double>(reader.attributes.integer("kv_heads", static_cast<int64_t>(heads)));
    return {heads / (heads + 2 * kv), kv / (heads + 2 * kv), kv / (heads + 2 * kv)};
  }
  return {1};
}

}  // namespace

std::vector<double> kept_outputs(const Recompute& recompute, const Graph& graph) {
  if (!recompute.products) return {};
  const auto& layers = graph.layers();
  std::vector<double> out(layers.size());
  int64_t products = 0;
  for (uint32_t i = 0; i < layers.size(); ++i) {
    if (i > 0 && block_of(layers[i]) != block_of(layers[i - 1])) products = 0;
    if (layers[i].type == nullptr || block_of(layers[i]).empty()) continue;
    if (layers[i].type->name == "attention") out[i] = 1;
    if (layers[i].type->name != "linear") continue;
    for (const double part : parts_of_product(layers, i)) out[i] += products++ % 2 == 0 ? part : 0;
  }
  return out;
}

std::vector<Kernel> kernels_but(const std::vector<Kernel>& forward, double kept) {
  if (kept >= 1) return {};
  std::vector<Kernel> out = forward;
  const auto rest = [&](int64_t n) { return std::llround(static_cast<double>(n) * (1 - kept)); };
  for (Kernel& k : out) {
    if (kept <= 0 || k.kind != KernelKind::gemm) continue;
    k.shape[2] = rest(k.shape[2]);
    k.flops = Flops{rest(k.flops.n)};
    k.read = Bytes{rest(k.read.n)};
    k.written = Bytes{rest(k.written.n)};
  }
  return out;
}

std::vector<Kernel> kernels_again(const Recompute& recompute, const Layer& layer, const Lowered& lowered) {
  const bool whole = (recompute.blocks && !block_of(layer).empty()) || recompute.drops_output(lowered) ||
                     (recompute.attention && lowered.cheap == Cheap::attention);
  if (whole) return lowered.forward;
  return recompute.activations ? lowered.remade : std::vector<Kernel>{};
}

}  // namespace tandem::schemes
