// SPDX-License-Identifier: Apache-2.0
#include "exec/lower/recompute.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace tandem::exec {

namespace {

using Twins = std::map<TensorId, TensorId>;

/// Of one model while its calls are rewritten.
class Recomputation {
 public:
  Recomputation(EmittedCalls& calls, const Graph& graph, const GradientFlow& flow, const SliceUse& use)
      : e_(calls), layers_(graph.layers()), flow_(flow), recompute_(use.recompute) {}

  /// A whole block: what its layers made for each other and for their backward passes.
  void block(LayerRange block) {
    Twins twins;
    for (uint32_t i = block.first; i < block.end(); ++i) {
      check_exchanges(i);
      check_readers(i, block);
      for (Call call : e_.forward[i]) {
        for (TensorId& t : call.operands) t = of_block(twins, block, t);
        e_.recompute[i].push_back(std::move(call));
      }
    }
    for (uint32_t i = block.first; i < block.end(); ++i) {
      read(twins, i);
      SliceTensors& s = e_.slice[i];
      for (const auto& [from, to] : {std::pair{s.output, &s.again}, std::pair{s.made, &s.made_twice},
                                     std::pair{s.gathered, &s.gathered_twice}}) {
        if (from != kNoTensor) *to = of_block(twins, block, from);
      }
    }
  }

  /// Single layers, each before the first backward pass that reads what it recomputes.
  void selected() {
    const auto count = static_cast<uint32_t>(layers_.size());
    std::vector<Dropped> dropped(count);
    for (uint32_t i = 0; i < count; ++i) dropped[i] = drop(i);
    for (uint32_t i = count; i-- > 0;) find_first_reader(dropped, i);
    Twins twins;
    for (uint32_t i = 0; i < count; ++i) {
      if (!dropped[i].read) continue;
      for (const TensorId t : dropped[i].tensors) twins[t] = twin(t);
    }
    for (uint32_t i = 0; i < count; ++i) read(twins, i);
    for (uint32_t at = 0; at < count; ++at) put_in_front(dropped, twins, at);
  }

 private:
  /// What a layer drops, and the calls that recompute it.
  struct Dropped {
    std::vector<Call> calls;
    std::set<TensorId> tensors;
    bool read = false;   ///< by a backward pass, ...
    uint32_t first = 0;  ///< ... this layer's first
  };

  [[noreturn]] void refuse(uint32_t layer, const std::string& why) const {
    throw InputError(layers_[layer].attributes.place(),
                     fmt::format("layer \"{}\" is recomputed (--recompute {}) only in predictions, since {}",
                                 layers_[layer].name, recompute_.text(), why));
  }

  void check_exchanges(uint32_t layer) const {
    if (!e_.slice[layer].forward.empty())
      refuse(layer,
             "devices exchange something in the middle of its forward pass: tokens for experts that are "
             "dealt over them, or keys and values of a sequence that they divide");
  }

  /// Gathered tensors are gathered again only for their own block.
  void check_readers(uint32_t layer, LayerRange block) const {
    for (const uint32_t reader : flow_.outputs[layer].readers) {
      const bool outside = reader < block.first || reader >= block.end();
      if (outside && flow_.lowered[reader].input_join == Join::gather)
        refuse(layer,
               fmt::format("devices gather parts of its sequence for layer \"{}\" outside of its block",
                           layers_[reader].name));
    }
    for (const uint32_t from : layers_[layer].inputs) {
      if (from < block.first && flow_.lowered[layer].input_join == Join::gather)
        refuse(layer,
               fmt::format("devices gather parts of the sequence of layer \"{}\" outside of its block for it",
                           layers_[from].name));
    }
  }

  /// Single layers are recomputed when everything else of a backward pass is ready.
  void check_joins(uint32_t layer) const {
    const Lowered& l = flow_.lowered[layer];
    const auto& readers = flow_.outputs[layer].readers;
    const bool gathered = std::any_of(readers.begin(), readers.end(), [&](uint32_t reader) {
      return flow_.lowered[reader].input_join == Join::gather;
    });
    if (l.input_join == Join::gather || l.output_join == Join::scatter || gathered)
      refuse(layer,
             "devices gather what it makes, part of a sequence each (blocks, or sequence=off, is executed)");
  }

  TensorId twin(TensorId t) {
    const Tensor x = e_.tensors[t];
    const TensorId made = e_.tensors.add(TensorKind::activation, x.elements, x.layer);
    e_.tensors[made].half = x.half;
    e_.tensors[made].integer = x.integer;
    return made;
  }

  TensorId of_block(Twins& twins, LayerRange block, TensorId t) {
    const Tensor& x = e_.tensors[t];
    const bool made_here =
        x.kind == TensorKind::activation && x.layer >= block.first && x.layer < block.end();
    if (!made_here && x.kind != TensorKind::buffer) return t;
    const auto [at, fresh] = twins.try_emplace(t, t);
    if (fresh) at->second = twin(t);
    return at->second;
  }

  /// The layer's backward pass reads recomputed tensors.
  void read(const Twins& twins, uint32_t layer) {
    for (Call& call : e_.backward[layer]) {
      for (TensorId& t : call.operands) {
        const auto at = twins.find(t);
        if (at != twins.end() && e_.tensors[t].kind == TensorKind::activation) t = at->second;
      }
    }
  }

  /// Made by the layer for itself, or its output if no other layer writes to it or replaces it.
  bool own(uint32_t layer, TensorId t) const {
    if (e_.tensors[t].kind != TensorKind::activation || e_.tensors[t].layer != layer) return false;
    for (uint32_t i = 0; i < layers_.size(); ++i) {
      const TensorId output = e_.slice[i].output;
      if (i != layer && output != kNoTensor && e_.tensors.root(output) == t) return false;
    }
    return true;
  }

  Dropped drop(uint32_t layer) const {
    Dropped out;
    const Lowered& l = flow_.lowered[layer];
    if (layers_[layer].type == nullptr) return out;
    const bool output = recompute_.drops_output(l);
    const bool attention = recompute_.attention && l.cheap == Lowered::Cheap::attention;
    const bool inside = std::any_of(l.own.begin(), l.own.end(),
                                    [&](const OwnTensor& o) { return recompute_.drops_own(l, o); });
    if (!output && !attention && !inside) return out;
    // Outputs that another layer replaces are kept.
    if ((output || attention) && !own(layer, e_.tensors.root(e_.slice[layer].output))) return out;
    if (output || attention) check_exchanges(layer);
    if (output || attention) check_joins(layer);
    for (const Call& call : e_.forward[layer]) {
      // Inside experts only the activations and their products with gates.
      if (!output && !attention && call.function != Function::gate && call.function != Function::unary)
        continue;
      out.calls.push_back(call);
      const std::size_t written = output || attention ? call.operands.size() : 1;
      for (std::size_t k = 0; k < written; ++k) {
        const TensorId t = call.operands[k];
        if (own(layer, t) && (output || t != e_.tensors.root(e_.slice[layer].output))) out.tensors.insert(t);
      }
    }
    return out;
  }

  static bool reads(const std::vector<Call>& calls, const std::set<TensorId>& tensors) {
    return std::any_of(calls.begin(), calls.end(), [&](const Call& c) {
      return std::any_of(c.operands.begin(), c.operands.end(),
                         [&](TensorId t) { return tensors.count(t) > 0; });
    });
  }

  /// Backward passes run from the last layer to the first; later layers are known already.
  void find_first_reader(std::vector<Dropped>& dropped, uint32_t layer) const {
    Dropped& own = dropped[layer];
    if (own.tensors.empty()) return;
    const auto needed = [&](uint32_t at) {
      own.first = own.read ? std::max(own.first, at) : at;
      own.read = true;
    };
    for (uint32_t i = 0; i < layers_.size(); ++i) {
      if (reads(e_.backward[i], own.tensors)) needed(i);
      if (i > layer && dropped[i].read && reads(dropped[i].calls, own.tensors)) needed(dropped[i].first);
    }
  }

  void put_in_front(const std::vector<Dropped>& dropped, const Twins& twins, uint32_t at) {
    std::vector<Call> calls;
    std::vector<Call>& backward = e_.backward[at];
    const bool data = std::any_of(backward.begin(), backward.end(),
                                  [](const Call& c) { return c.pass == Pass::backward_data; });
    for (const Dropped& d : dropped) {
      if (!d.read || d.first != at) continue;
      for (Call call : d.calls) {
        call.pass = data ? Pass::backward_data : Pass::backward_weights;
        for (TensorId& t : call.operands) {
          const auto twin = twins.find(t);
          if (twin != twins.end()) t = twin->second;
        }
        calls.push_back(std::move(call));
      }
    }
    backward.insert(backward.begin(), calls.begin(), calls.end());
    for (ExchangedTensors& x : e_.slice[at].backward) {
      x.before += static_cast<uint32_t>(calls.size());
      x.awaited += static_cast<uint32_t>(calls.size());
    }
  }

  EmittedCalls& e_;
  const std::vector<Layer>& layers_;
  const GradientFlow& flow_;
  const Recompute& recompute_;
};

}  // namespace

std::vector<LayerRange> add_recomputation(EmittedCalls& calls, const Graph& graph, const GradientFlow& flow,
                                          const SliceUse& use) {
  Recomputation recomputation(calls, graph, flow, use);
  std::vector<LayerRange> out;
  for (const LayerRange& chunk : use.chunks_of(static_cast<uint32_t>(graph.layers().size()))) {
    for (const LayerRange& block : blocks_again(use.recompute, graph, chunk)) out.push_back(block);
  }
  for (const LayerRange& block : out) recomputation.block(block);
  if (use.recompute.selective()) recomputation.selected();
  return out;
}

}  // namespace tandem::exec
