// SPDX-License-Identifier: Apache-2.0
#include "models/blocks.h"

#include <algorithm>
#include <optional>

#include "base/error.h"

namespace tandem::models {

namespace {

/// Equal blocks, one after another.
struct Repeated {
  uint32_t first = 0, size = 0, count = 0;  ///< layers before, layers of each, blocks
  uint32_t end() const { return first + size * count; }
};

/// What a layer is, whatever it is called.
bool same_layer(const Layer& a, const Layer& b) {
  const auto same = [](const std::vector<Parameter>& p, const std::vector<Parameter>& q) {
    return std::equal(p.begin(), p.end(), q.begin(), q.end(), [](const Parameter& x, const Parameter& y) {
      return x.name == y.name && x.elements == y.elements;
    });
  };
  return a.type == b.type && a.output == b.output && a.attributes == b.attributes &&
         a.frozen_bits == b.frozen_bits && same(a.parameters, b.parameters) && same(a.frozen, b.frozen);
}

/// The inputs of a block's layer are those of the same layer one block before, one block on. The first block
/// reads what stands before all in place of a block before.
bool reads_same(const std::vector<Layer>& layers, uint32_t i, const Repeated& r) {
  const auto &now = layers[i].inputs, &before = layers[i - r.size].inputs;
  if (now.size() != before.size()) return false;
  const uint32_t begin = r.first + (i - r.first) / r.size * r.size;
  for (std::size_t k = 0; k < now.size(); ++k) {
    const bool fixed = now[k] < r.first && now[k] == before[k];
    const bool shifts = now[k] == before[k] + r.size && now[k] + r.size >= begin;
    const bool starts =
        begin == r.first + r.size && now[k] >= r.first && now[k] < begin && before[k] < r.first;
    if (!fixed && !shifts && !starts) return false;
  }
  return true;
}

/// Where blocks that stand one after another begin, and where the last of them ends; of the first such row.
std::vector<uint32_t> block_bounds(const std::vector<Layer>& layers) {
  std::vector<uint32_t> out;
  for (uint32_t i = 0; i < layers.size(); ++i) {
    const std::string_view block = block_of(layers[i]);
    if (!out.empty() && block == block_of(layers[out.back()])) continue;
    if (!block.empty() || !out.empty()) out.push_back(i);
    if (block.empty() && !out.empty()) return out;
  }
  if (!out.empty()) out.push_back(static_cast<uint32_t>(layers.size()));
  return out;
}

/// The layers from `i` on are those of one block before.
bool repeats(const std::vector<Layer>& layers, const Repeated& r, uint32_t begin, uint32_t end) {
  if (end - begin != r.size) return false;
  for (uint32_t i = begin; i < end; ++i) {
    if (!same_layer(layers[i], layers[i - r.size]) || !reads_same(layers, i, r)) return false;
  }
  return true;
}

/// The most layers in equal blocks, or equal groups of `group` of them.
Repeated longest(const std::vector<Layer>& layers, const std::vector<uint32_t>& bounds, std::size_t group) {
  Repeated best, now;
  for (std::size_t k = 0; k + group < bounds.size(); k += group) {
    const uint32_t begin = bounds[k], end = bounds[k + group];
    if (now.count > 0 && repeats(layers, now, begin, end))
      ++now.count;
    else
      now = {begin, end - begin, 1};
    if (now.count > 1 && now.size * now.count > best.size * best.count) best = now;
  }
  return best;
}

/// Nothing behind the blocks reads another than the last of them.
bool reads_the_last(const std::vector<Layer>& layers, const Repeated& r) {
  for (uint32_t i = r.end(); i < layers.size(); ++i) {
    for (const uint32_t from : layers[i].inputs) {
      if (from >= r.first && from < r.end() - r.size) return false;
    }
  }
  return true;
}

std::optional<Repeated> repeated(const std::vector<Layer>& layers) {
  const std::vector<uint32_t> bounds = block_bounds(layers);
  Repeated best;
  for (const std::size_t group : {1, 2, 3, 4, 5, 6}) {
    const Repeated found = longest(layers, bounds, group);
    if (found.size * found.count > best.size * best.count && reads_the_last(layers, found)) best = found;
  }
  return best.count > 1 ? std::optional(best) : std::nullopt;
}

}  // namespace

int64_t equal_blocks(const Graph& graph) {
  const auto found = repeated(graph.layers());
  return found ? found->count : 0;
}

Graph with_blocks(const Graph& graph, int64_t count) {
  const std::vector<Layer>& layers = graph.layers();
  const auto found = repeated(layers);
  TANDEM_CHECK(found && count >= 1 && count <= found->count);
  const uint32_t begin = found->first + found->size * static_cast<uint32_t>(count),
                 gone = found->end() - begin;
  ModelDescription out{graph.name(), graph.summary(), graph.sample(), {}, {}, 0};
  std::vector<bool> read(layers.size());
  for (uint32_t i = 0; i < layers.size(); ++i) {
    if (i >= begin && i < found->end()) continue;
    out.layers.push_back(layers[i]);
    for (uint32_t& from : out.layers.back().inputs) {
      from -= from >= begin ? gone : 0;
      read[from] = true;
    }
  }
  // The model's output is what nothing reads, a loss before others.
  for (uint32_t i = 0; i < out.layers.size(); ++i) {
    if (!read[i] && !out.layers[i].output.empty()) out.output = i;
  }
  if (out.output == 0) out.output = static_cast<uint32_t>(out.layers.size()) - 1;
  return Graph::of(std::move(out));
}

}  // namespace tandem::models
