// SPDX-License-Identifier: Apache-2.0
#include "schemes/step/model_cuts.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace tandem::schemes {

namespace {

bool is_input(const Layer& layer) { return layer.type == nullptr; }

/// [i]: layers before i, inputs apart, that are read at or after i.
std::vector<int32_t> crossings(const std::vector<Layer>& layers) {
  std::vector<uint32_t> last(layers.size());
  for (uint32_t i = 0; i < layers.size(); ++i) {
    for (const uint32_t from : layers[i].inputs) last[from] = i;
  }
  std::vector<int32_t> change(layers.size() + 1), out;
  for (uint32_t i = 0; i < layers.size(); ++i) {
    if (is_input(layers[i]) || last[i] <= i) continue;
    ++change[i + 1];
    --change[last[i] + 1];
  }
  int32_t open = 0;
  for (uint32_t i = 0; i < layers.size(); ++i) out.push_back(open += change[i]);
  return out;
}

struct Blocks {
  std::vector<uint32_t> first;  ///< layers with which a repeated block begins
  bool equal = true;            ///< in their parameters
};

Blocks blocks_of(const std::vector<Layer>& layers) {
  Blocks out;
  std::vector<int64_t> sums;
  for (uint32_t i = 0; i < layers.size(); ++i) {
    const std::string_view block = block_of(layers[i]);
    if (block.empty()) continue;
    if (i == 0 || block_of(layers[i - 1]) != block) {
      out.first.push_back(i);
      sums.push_back(0);
    }
    for (const Parameter& p : layers[i].parameters) sums.back() += p.elements;
  }
  out.equal = std::all_of(sums.begin(), sums.end(), [&](int64_t s) { return s == sums[0]; });
  return out;
}

/// How many parts there are where each has at most `limit` of the work, if that can be; the cuts are left in
/// `cuts`.
std::size_t fill(const std::vector<int64_t>& sums, const std::vector<uint32_t>& places, int64_t limit,
                 std::vector<uint32_t>& cuts) {
  cuts.clear();
  int64_t begin = 0;
  for (std::size_t k = 0; k < places.size(); ++k) {
    const int64_t next = k + 1 < places.size() ? sums[places[k + 1]] : sums.back();
    if (next - begin <= limit) continue;
    cuts.push_back(places[k]);
    begin = sums[places[k]];
  }
  return cuts.size() + 1;
}

/// Of all cuts into `parts` of at most `limit` of the work each, those into the most equal ones: their
/// squares sum to the least. O(places^2 x parts).
std::vector<uint32_t> most_even(const std::vector<int64_t>& sums, const std::vector<uint32_t>& places,
                                std::size_t parts, int64_t limit) {
  const std::size_t ends = places.size() + 1;  // a part ends before places[e], the last with the model
  const auto before = [&](std::size_t e) { return e < places.size() ? sums[places[e]] : sums.back(); };
  constexpr double kNone = std::numeric_limits<double>::infinity();
  std::vector<double> least(ends), next(ends);
  std::vector<std::vector<uint32_t>> from(parts, std::vector<uint32_t>(ends));  // the end of the part before
  for (std::size_t e = 0; e < ends; ++e) {
    const auto size = static_cast<double>(before(e));
    least[e] = before(e) <= limit ? size * size : kNone;
  }
  for (std::size_t part = 1; part < parts; ++part) {
    std::fill(next.begin(), next.end(), kNone);
    for (std::size_t e = part; e < ends; ++e) {
      for (std::size_t s = e; s-- > part - 1 && before(e) - before(s) <= limit;) {
        const auto size = static_cast<double>(before(e) - before(s));
        if (least[s] + size * size > next[e])
          continue;  // of equals: later parts larger, early ones hold more
        next[e] = least[s] + size * size;
        from[part][e] = static_cast<uint32_t>(s);
      }
    }
    std::swap(least, next);
  }
  std::vector<uint32_t> cuts;
  if (least[ends - 1] == kNone) return cuts;
  for (std::size_t part = parts, e = ends - 1; part-- > 1;) {
    e = from[part][e];
    cuts.push_back(places[e]);
  }
  std::reverse(cuts.begin(), cuts.end());
  return cuts;
}

/// The `parts - 1` of `places` that make the largest part smallest, and then the parts as equal as can be.
std::vector<uint32_t> balanced(const std::vector<int64_t>& work, const std::vector<uint32_t>& places,
                               std::size_t parts) {
  std::vector<int64_t> sums{0};  // of the layers before
  for (const int64_t w : work) sums.push_back(sums.back() + w);
  int64_t largest = 0;  // what no cut divides
  for (std::size_t k = 0; k <= places.size(); ++k) {
    const int64_t from = k == 0 ? 0 : sums[places[k - 1]],
                  to = k < places.size() ? sums[places[k]] : sums.back();
    largest = std::max(largest, to - from);
  }
  std::vector<uint32_t> cuts;
  int64_t low = largest - 1, high = sums.back();
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (fill(sums, places, middle, cuts) <= parts ? high : low) = middle;
  }
  constexpr double kMostSteps = 2e8;
  if (static_cast<double>(places.size()) * static_cast<double>(places.size()) * static_cast<double>(parts) <
      kMostSteps) {
    cuts = most_even(sums, places, parts, high);
    if (cuts.size() + 1 == parts) return cuts;
  }
  fill(sums, places, high, cuts);
  for (std::size_t k = 0; k < places.size() && cuts.size() + 1 < parts; ++k) {  // parts may not be empty
    if (std::find(cuts.begin(), cuts.end(), places[k]) == cuts.end()) cuts.push_back(places[k]);
  }
  std::sort(cuts.begin(), cuts.end());
  return cuts;
}

std::vector<uint32_t> places_of(const std::vector<Layer>& layers, const Blocks& blocks, std::size_t parts) {
  if (blocks.first.size() >= parts) return {blocks.first.begin() + 1, blocks.first.end()};
  const std::vector<int32_t> open = crossings(layers);
  std::vector<uint32_t> out;
  for (uint32_t i = 1; i < layers.size(); ++i) {
    if (open[i] == 1 && !is_input(layers[i])) out.push_back(i);
  }
  return out;
}

/// What a part counts of each layer where blocks are dealt by their number.
std::vector<int64_t> blocks_as_work(const Blocks& blocks, std::size_t layers, std::size_t parts) {
  std::vector<int64_t> work(layers);
  for (const uint32_t first : blocks.first) work[first] = 1;
  const bool divides = blocks.first.size() % parts == 0;
  if (!divides && (blocks.first.size() + 2) % parts == 0)
    ++work.front(), ++work.back();
  else if (!divides && (blocks.first.size() + 1) % parts == 0)
    ++work.back();
  return work;
}

}  // namespace

std::vector<uint32_t> crossing(const Graph& graph, uint32_t cut) {
  const auto& layers = graph.layers();
  std::vector<bool> read(cut);
  for (uint32_t i = cut; i < layers.size(); ++i) {
    for (const uint32_t from : layers[i].inputs) {
      if (from < cut) read[from] = true;
    }
  }
  std::vector<uint32_t> out;
  for (uint32_t i = 0; i < cut; ++i) {
    if (read[i] && !is_input(layers[i])) out.push_back(i);
  }
  return out;
}

bool divides_into(const Graph& graph, int64_t parts) {
  const auto count = static_cast<std::size_t>(parts);
  return places_of(graph.layers(), blocks_of(graph.layers()), count).size() + 1 >= count;
}

std::vector<LayerRange> cut_model(const Graph& graph, const std::vector<Lowered>& lowered, int64_t parts,
                                  CutBy by) {
  const auto& layers = graph.layers();
  std::vector<int64_t> work;
  for (const Lowered& l : lowered) work.push_back(matrix_flops(l).n);
  const Blocks blocks = blocks_of(layers);
  const auto count = static_cast<std::size_t>(parts);
  std::vector<uint32_t> cuts;
  if (by == CutBy::equal && blocks.first.size() >= count) work = blocks_as_work(blocks, layers.size(), count);
  if (by == CutBy::automatic && blocks.equal && !blocks.first.empty() && blocks.first.size() % count == 0) {
    const std::size_t each = blocks.first.size() / count;
    for (std::size_t k = each; k < blocks.first.size(); k += each) cuts.push_back(blocks.first[k]);
  } else {
    const std::vector<uint32_t> places = places_of(layers, blocks, count);
    if (places.size() + 1 < count)
      throw InputError(fmt::format("{} divides into at most {} consecutive parts, not {}", graph.name(),
                                   places.size() + 1, parts));
    cuts = balanced(work, places, count);
  }
  std::vector<LayerRange> out;
  uint32_t first = 0;
  for (const uint32_t cut : cuts) {
    out.push_back({first, cut - first});
    first = cut;
  }
  out.push_back({first, static_cast<uint32_t>(layers.size()) - first});
  return out;
}

WeightCopies weight_copies(const Graph& graph, const std::vector<LayerRange>& parts,
                           const PipelineShape& shape) {
  const auto holder = [&](uint32_t layer) {
    int32_t part = 0;
    while (layer >= parts[static_cast<std::size_t>(part)].end()) ++part;
    return WeightHolder{shape.stage_of(part), layer};
  };
  WeightCopies out;
  for (uint32_t i = 0; i < graph.layers().size(); ++i) {
    const auto owner = graph.tied_to(i);
    if (!owner || graph.layers()[*owner].parameters.empty()) continue;
    const WeightHolder copy = holder(i), first = holder(*owner);
    if (copy.stage == first.stage) continue;
    std::vector<WeightHolder>& all = out[*owner];
    if (all.empty()) all.push_back(first);
    for (const WeightHolder& h : all) {
      if (h.stage == copy.stage)
        throw InputError(fmt::format("{}: layers \"{}\" and \"{}\" on one stage use a weight of another",
                                     graph.name(), graph.layers()[h.layer].name, graph.layers()[i].name));
    }
    all.push_back(copy);
  }
  return out;
}

}  // namespace tandem::schemes
