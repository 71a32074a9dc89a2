// SPDX-License-Identifier: Apache-2.0
#include "exec/layout/parameter_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace tandem::exec {

namespace {

/// The only layer that reads another's output; null if there are none or several.
const Layer* only_reader(const Graph& graph, uint32_t layer) {
  const Layer* reader = nullptr;
  for (const Layer& l : graph.layers()) {
    for (const uint32_t from : l.inputs) {
      if (from != layer) continue;
      if (reader != nullptr) return nullptr;
      reader = &l;
    }
  }
  return reader;
}

/// The parts of an output's last dimension that are divided separately: an attention layer's packed queries,
/// keys and values, or the parts that views take.
std::vector<int64_t> packed(const Graph& graph, uint32_t layer, int64_t features) {
  for (const Layer* reader = only_reader(graph, layer); reader != nullptr && reader->type != nullptr;
       reader = only_reader(graph, layer)) {
    const Attributes attributes(reader->attributes);
    if (reader->type->name == "attention" && reader->inputs.size() == 1) {
      const int64_t heads = attributes.integer("heads"), kv = attributes.integer("kv_heads", heads);
      const int64_t size = features / (heads + 2 * kv);
      return {heads * size, kv * size, kv * size};
    }
    if (reader->output != graph.layers()[layer].output) break;
    layer = static_cast<uint32_t>(reader - graph.layers().data());
  }
  for (const Layer& l : graph.layers()) {
    if (l.type == nullptr || l.type->name != "split" || l.inputs[0] != layer) continue;
    const int64_t parts = Attributes(l.attributes).integer("parts");
    return std::vector<int64_t>(static_cast<std::size_t>(parts), features / parts);
  }
  return {features};
}

/// A tensor of a slice and the model's tensor that it is part of.
struct MappedPart {
  const Layer& layer;
  MappedRange at;  ///< own and whole: their starts; elements: the slice's
  int64_t all;     ///< elements of the model's
};

/// Rows of which this device has its part of each packed piece of `columns`.
void add_columns(const MappedPart& part, const std::vector<int64_t>& columns, int64_t own_columns,
                 uint32_t partner, ParameterMap& out) {
  const int64_t all = std::accumulate(columns.begin(), columns.end(), int64_t{0});
  const int64_t ways = (all + own_columns - 1) / own_columns;
  for (int64_t row = 0; row < part.at.elements / own_columns; ++row) {
    int64_t own = part.at.own + row * own_columns, begin = part.at.whole + row * all;
    for (const int64_t piece : columns) {
      const int64_t each = (piece + ways - 1) / ways, first = each * partner;
      const int64_t count = std::clamp<int64_t>(piece - first, 0, each);
      if (count > 0) out.push_back({own, begin + first, count});
      own += each;
      begin += piece;
    }
  }
}

/// A tensor of experts: those of this device, and its part of each if partners divide them by inner features:
/// rows of the down projection, else columns.
void add_experts(const MappedPart& part, const std::string& name, const Portion& portion, ParameterMap& out) {
  const int64_t count = Attributes(part.layer.attributes).integer("count"), here = count / portion.experts;
  const int64_t each = part.all / count, own = part.at.elements / here, ways = each / own;
  const int64_t feed = Attributes(part.layer.attributes).integer("feed");
  for (int64_t e = 0; e < here; ++e) {
    const int64_t to = part.at.own + e * own, from = part.at.whole + (portion.expert * here + e) * each;
    if (ways == 1 || name == "down") {
      out.push_back({to, from + (ways == 1 ? 0 : portion.partner * own), own});
      continue;
    }
    for (int64_t row = 0; row < each / feed; ++row)
      out.push_back(
          {to + row * (feed / ways), from + row * feed + portion.partner * (feed / ways), feed / ways});
  }
}

void add_part(const ExecutionGraph& whole, const MappedPart& part, uint32_t layer, uint32_t partner,
              ParameterMap& out) {
  const std::string split = part.layer.attributes.text("split", "whole");
  const bool table = part.at.copy || part.layer.type->name == "embedding";
  if (part.at.elements == part.all) {
    out.push_back(part.at);
  } else if (split == "rows" || table) {
    const int64_t first = part.at.elements * partner;
    const int64_t count = std::clamp<int64_t>(part.all - first, 0, part.at.elements);
    if (count > 0) out.push_back({part.at.own, part.at.whole + first, count, part.at.copy});
  } else if (split == "heads") {  // learned scores
    const int64_t heads = Attributes(part.layer.attributes).integer("heads");
    add_columns(part, {heads}, part.at.elements * heads / part.all, partner, out);
  } else {
    const int64_t columns = whole.graph().layers()[layer].output.back();
    const int64_t own = part.layer.output.back();
    add_columns(part, split == "columns" ? packed(whole.graph(), layer, columns) : std::vector{columns}, own,
                partner, out);
  }
}

}  // namespace

ParameterMap parameter_map_of(const ExecutionGraph& whole, const ExecutionGraph& own, const Portion& portion,
                              bool frozen) {
  ParameterMap out;
  const auto tensors = [&](const ExecutionGraph& of) -> const auto& {
    return frozen ? of.frozen() : of.learned();
  };
  const auto weights = [&](const ExecutionGraph& of, uint32_t layer) -> const auto& {
    const Layer& l = of.graph().layers()[layer];
    return frozen ? l.frozen : l.parameters;
  };
  for (const LearnedTensor& l : tensors(own)) {
    // An output layer's copy of an embedding's weight comes before its other tensors.
    const bool copies = weights(own, l.layer).size() > weights(whole, l.layer).size();
    const bool copy = copies && l.index == 0;
    const uint32_t layer = copy ? whole.graph().tied_to(l.layer).value() : l.layer;
    const uint32_t index = copies && !copy ? l.index - 1 : l.index;
    const auto all = std::find_if(tensors(whole).begin(), tensors(whole).end(), [&](const LearnedTensor& w) {
      return w.layer == layer && w.index == index;
    });
    TANDEM_CHECK(all != tensors(whole).end());
    const auto begin = [&](const ExecutionGraph& of, const LearnedTensor& t) {
      return frozen ? t.first : of.tensors()[t.parameter].offset;
    };
    const Parameter& weight = weights(own, l.layer)[l.index];
    const MappedPart p{own.graph().layers()[l.layer],
                       {begin(own, l), begin(whole, *all), weight.elements, copy},
                       weights(whole, layer)[index].elements};
    if (!copy && weight.dealt)
      add_experts(p, weight.name, portion, out);
    else
      add_part(whole, p, l.layer, portion.partner, out);
  }
  return out;
}

std::vector<BufferPlace> buffers(const ExecutionGraph& whole, const ExecutionGraph& own) {
  std::vector<BufferPlace> out;
  int64_t at = 0;
  TensorId next = 0;  // both list them layer by layer
  const auto& tensors = own.tensors();
  const auto skip = [&] {
    while (next < tensors.size() && tensors[next].kind != TensorKind::buffer) ++next;
  };
  skip();
  for (const Tensor& t : whole.tensors()) {
    if (t.kind != TensorKind::buffer) continue;
    if (next < tensors.size() && tensors[next].layer == t.layer && tensors[next].elements == t.elements) {
      out.push_back({next++, at});
      skip();
    }
    at += t.elements;
  }
  return out;
}

void take_mapped(const ParameterMap& map, const std::vector<float>& whole, int64_t whole_elements,
                 std::vector<float>& own, int64_t own_elements) {
  const auto flats = whole_elements == 0 ? 0 : static_cast<int64_t>(whole.size()) / whole_elements;
  own.assign(static_cast<std::size_t>(flats * own_elements), 0);
  for (int64_t k = 0; k < flats; ++k) {
    for (const MappedRange& p : map)
      std::copy_n(whole.begin() + k * whole_elements + p.whole, p.elements,
                  own.begin() + k * own_elements + p.own);
  }
}

void give_mapped(const ParameterMap& map, const std::vector<float>& own, int64_t own_elements, int64_t first,
                 int64_t elements, std::vector<float>& whole, int64_t whole_elements) {
  const auto flats = own_elements == 0 ? 0 : static_cast<int64_t>(own.size()) / own_elements;
  for (int64_t k = 0; k < flats; ++k) {
    for (const MappedRange& p : map) {
      const int64_t begin = std::max(p.own, first), end = std::min(p.own + p.elements, first + elements);
      if (begin < end)
        std::copy_n(own.begin() + k * own_elements + begin, end - begin,
                    whole.begin() + k * whole_elements + p.whole + begin - p.own);
    }
  }
}

}  // namespace tandem::exec
