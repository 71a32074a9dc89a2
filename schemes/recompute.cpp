// SPDX-License-Identifier: Apache-2.0
#include "schemes/recompute.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
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
  if (blocks) return "blocks";
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
  for (const std::string& word : split(text, '+')) {
    const auto at =
        std::find_if(kParts.begin(), kParts.end(), [&](const auto& p) { return p.first == word; });
    if (at == kParts.end())
      throw InputError(
          place, fmt::format("nothing named \"{}\" is computed again.{} Valid: off, blocks, or some of "
                             "norms, activations and attention, joined by +",
                             printable(word),
                             did_you_mean(word, {"off", "blocks", "norms", "activations", "attention"})));
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

std::vector<Kernel> kernels_again(const Recompute& recompute, const Layer& layer, const Lowered& lowered) {
  const bool whole = (recompute.blocks && !block_of(layer).empty()) || recompute.drops_output(lowered) ||
                     (recompute.attention && lowered.cheap == Cheap::attention);
  if (whole) return lowered.forward;
  return recompute.activations ? lowered.remade : std::vector<Kernel>{};
}

}  // namespace tandem::schemes
