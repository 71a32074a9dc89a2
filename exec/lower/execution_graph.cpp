// SPDX-License-Identifier: Apache-2.0
// Makes a Graph executable in five phases, each with its own state: who hands gradients to whom
// (gradient_flow.h), each layer's calls (emitted_calls.h), then here whose memory each operand is, what runs
// forward again (recompute.h), and where all that is placed.
#include "exec/lower/execution_graph.h"

#include <fmt/format.h>

#include <algorithm>

#include "exec/lower/arena.h"
#include "exec/lower/emitted_calls.h"
#include "exec/lower/fused_norm.h"
#include "exec/lower/gradient_flow.h"
#include "exec/lower/recompute.h"
#include "exec/lower/stored.h"

namespace tandem::exec {

namespace {

// ---- whose memory each operand is ----

void resolve(Call& c, const TensorTable& tensors) {
  for (TensorId& t : c.operands) t = tensors.root(t);
  for (std::size_t k = 0; tensors.half() && k < c.operands.size(); ++k) {
    const Tensor& t = tensors[c.operands[k]];
    c.half_operands.push_back(t.half ? t.elements : 0);
    if (t.half && t.kind == TensorKind::gradient) c.gradients |= 1U << k;
  }
}

/// Samples arrive in 4 bytes: where layers read 2 bytes, a copy stands for each input. Made last, so that
/// ids, and what is drawn by them, are the same in every precision.
std::vector<TensorId> stand_in_for_inputs(EmittedCalls& e) {
  std::vector<TensorId> out;
  for (const TensorId input : e.inputs) {
    const Tensor made = e.tensors[input];
    if (!e.tensors.half() || made.integer) continue;
    out.push_back(input);
    e.tensors.join(input, e.tensors.add_activation(TensorKind::activation, made.elements, made.layer));
  }
  return out;
}

Call copy_input(TensorTable& tensors, TensorId input) {
  Call copy;
  copy.function = Function::copy;
  copy.operands = {tensors.root(input), input};
  copy.shape = {tensors[input].elements};
  copy.layer = tensors[input].layer;
  tensors.join(input, input);
  resolve(copy, tensors);
  return copy;
}

void resolve_memory(EmittedCalls& e) {
  const std::vector<TensorId> narrowed = stand_in_for_inputs(e);
  for (auto* lists : {&e.forward, &e.backward}) {
    for (auto& list : *lists) {
      for (Call& c : list) resolve(c, e.tensors);
    }
  }
  for (auto* list : {&e.labels, &e.losses}) {
    for (TensorId& t : *list) t = e.tensors.root(t);
  }
  for (const TensorId input : narrowed) {
    const Call copy = copy_input(e.tensors, input);
    e.forward[copy.layer].push_back(copy);
  }
  for (TensorId* t : {&e.logits, &e.output}) {
    if (*t != kNoTensor) *t = e.tensors.root(*t);
  }
  if (!e.losses.empty()) e.output = e.losses.back();
  for (SliceTensors& s : e.slice) {
    const auto own = [&](TensorId& t) { t = t != kNoTensor ? e.tensors.root(t) : t; };
    for (TensorId* t : {&s.output, &s.gradient, &s.arriving, &s.partial, &s.made, &s.made_gradient,
                        &s.gathered, &s.gathered_again, &s.scattered})
      own(*t);
    for (auto* exchanges : {&s.forward, &s.backward}) {
      for (ExchangedTensors& x : *exchanges) {
        for (TensorId* t : {&x.from, &x.to, &x.counts, &x.arrived}) own(*t);
      }
    }
  }
}

// ---- where it is ----

void extend(ArenaBlock& life, int64_t first, int64_t last) {
  life.first = std::min(life.first, first);
  life.last = std::max(life.last, last);
}

/// When the layers' passes run, in steps.
struct PassTimes {
  PassTimes(const EmittedCalls& e, const std::vector<LayerRange>& blocks) {
    const auto layers = static_cast<uint32_t>(e.forward.size());
    again.assign(layers, -1);
    backward.resize(layers);
    for (uint32_t i = 0; i < layers; ++i) forward.push_back(end++);
    for (uint32_t i = layers; i-- > 0;) {
      for (const LayerRange& b : blocks) {
        for (uint32_t k = b.first; k < b.end() && b.end() == i + 1; ++k) again[k] = end++;
      }
      backward[i] = end++;
    }
    weights.resize(layers);
    for (uint32_t i = layers; i-- > 0;) weights[i] = end++;
  }
  /// [layer]: weights: where parameters' gradients are made apart; again: -1 where it does not run again.
  std::vector<int64_t> forward, again, backward, weights;
  int64_t end = 0;
};

/// A sent output is read until its gradient is there; what is received is written before the passes that read
/// it, and a gradient may leave long after the pass that made it.
void extend_exchanged(const EmittedCalls& e, const GradientFlow& flow, const PassTimes& at,
                      std::vector<ArenaBlock>& out) {
  for (uint32_t i = 0; i < e.forward.size(); ++i) {
    const SliceTensors& s = e.slice[i];
    const bool received = e.forward[i].empty() && !e.elsewhere[i] && s.output != kNoTensor;
    if (flow.outputs[i].sent) extend(out[s.output], at.forward[i], at.backward[i]);
    if (s.arriving != kNoTensor) extend(out[s.arriving], at.forward.back() + 1, at.backward[i]);
    if (received) extend(out[s.output], at.forward[i], at.forward[i]);
    if (received && s.gradient != kNoTensor) extend(out[s.gradient], at.backward[i], at.end);
    for (const auto* exchanges : {&s.forward, &s.backward}) {
      const int64_t pass = exchanges == &s.forward ? at.forward[i] : at.backward[i];
      for (const ExchangedTensors& x : *exchanges) {
        for (const TensorId t : {x.from, x.to, x.counts, x.arrived}) {
          if (t != kNoTensor) extend(out[t], pass, pass);
        }
      }
    }
  }
}

/// Where partners divide the sequence: what they scatter and gather is written between the passes of the
/// layers.
void extend_scattered(const EmittedCalls& e, const GradientFlow& flow, bool parts, const PassTimes& at,
                      std::vector<ArenaBlock>& out) {
  for (uint32_t i = 0; i < e.forward.size(); ++i) {
    const SliceTensors& s = e.slice[i];
    const int64_t forward = at.forward[i], back = at.backward[i];
    if (s.made != kNoTensor) extend(out[s.output], forward, forward);
    if (s.made_twice != kNoTensor) extend(out[s.again], at.again[i], at.again[i]);
    if (s.made_gradient != kNoTensor) {
      extend(out[s.made_gradient], back, back);
      extend(out[s.gradient], back, back);
    }
    for (const uint32_t reader : flow.outputs[i].readers) {
      if (flow.lowered[reader].input_join != Join::gather) continue;
      const int64_t read = at.forward[reader], read_back = at.backward[reader],
                    again = parts ? at.weights[reader] : read_back;
      const bool kept = s.gathered_again != kNoTensor && s.again == kNoTensor;
      extend(out[s.output], forward, kept ? again : read);
      if (s.gathered_twice != kNoTensor) {
        extend(out[s.again], at.again[i], s.gathered_again != kNoTensor ? again : at.again[reader]);
        extend(out[s.gathered_twice], at.again[i], at.again[reader]);
      }
      extend(out[s.gathered], forward, read);
      if (s.gathered_again != kNoTensor) extend(out[s.gathered_again], read_back, again);
      if (s.scattered != kNoTensor) {
        extend(out[s.partial], read_back, read_back);
        extend(out[s.scattered], read_back, read_back);
      }
    }
  }
}

/// [tensor]: first and last step that touches it, last < first where none does. Running statistics and losses
/// stay.
std::vector<ArenaBlock> lives(const EmittedCalls& e, const GradientFlow& flow, bool parts,
                              const PassTimes& at) {
  std::vector<ArenaBlock> out(e.tensors.size(), {0, INT64_MAX, -1});
  const auto touch = [&](const std::vector<Call>& calls, int64_t pass, int64_t weights) {
    for (const Call& c : calls) {
      const int64_t then = parts && c.pass == Pass::backward_weights ? weights : pass;
      for (const TensorId t : c.operands) extend(out[t], std::min(pass, then), then);
    }
  };
  for (std::size_t i = 0; i < e.forward.size(); ++i) {
    touch(e.forward[i], at.forward[i], at.forward[i]);
    touch(e.recompute[i], at.again[i], at.again[i]);
    touch(e.backward[i], at.backward[i], at.weights[i]);
  }
  extend_exchanged(e, flow, at, out);
  extend_scattered(e, flow, parts, at, out);
  for (TensorId t = 0; t < e.tensors.size(); ++t) {
    const Tensor& x = e.tensors[t];
    out[t].words = x.words();
    if (x.kind == TensorKind::buffer || x.kind == TensorKind::loss) out[t].first = 0, out[t].last = at.end;
  }
  return out;
}

// ---- what several micro-batches under way need once ----

/// Tensors that other lanes than the one that computes read or write, in the middle of a pass or after it.
std::vector<bool> exchanged_tensors(const EmittedCalls& e, const GradientFlow& flow) {
  std::vector<bool> out(e.tensors.size());
  const auto note = [&](std::initializer_list<TensorId> tensors) {
    for (const TensorId t : tensors) {
      if (t != kNoTensor) out[t] = true;
    }
  };
  for (uint32_t i = 0; i < e.forward.size(); ++i) {
    const SliceTensors& s = e.slice[i];
    const auto& readers = flow.outputs[i].readers;
    const bool joined = flow.lowered[i].output_join != Join::none ||
                        std::any_of(readers.begin(), readers.end(), [&](uint32_t reader) {
                          return flow.lowered[reader].input_join != Join::none;
                        });
    if (joined || flow.outputs[i].sent || (e.forward[i].empty() && s.output != kNoTensor))
      note({s.output, s.again, s.gradient, s.arriving, s.partial, s.made, s.made_twice, s.made_gradient,
            s.gathered, s.gathered_twice, s.gathered_again, s.scattered});
    for (const auto* exchanges : {&s.forward, &s.backward}) {
      for (const ExchangedTensors& x : *exchanges) note({x.from, x.to, x.counts, x.arrived});
    }
  }
  return out;
}

/// Marks what lives within one pass over a chunk.
void find_passing(EmittedCalls& e, const GradientFlow& flow, const SliceUse& use, const PassTimes& at,
                  const std::vector<ArenaBlock>& life) {
  const std::vector<bool> exchanged = exchanged_tensors(e, flow);
  std::vector<std::pair<int64_t, int64_t>> passes;
  for (const LayerRange& c : use.chunks_of(static_cast<uint32_t>(e.forward.size()))) {
    const uint32_t last = c.end() - 1;
    passes.emplace_back(at.forward[c.first], at.forward[last]);
    passes.emplace_back(at.backward[last], at.backward[c.first]);
    for (uint32_t i = c.first; i < c.end(); ++i) {
      if (at.again[i] >= 0) passes.back().first = std::min(passes.back().first, at.again[i]);
    }
  }
  for (TensorId t = 0; t < e.tensors.size(); ++t) {
    Tensor& x = e.tensors[t];
    const bool moves = x.kind == TensorKind::activation || x.kind == TensorKind::gradient;
    x.passing = moves && !exchanged[t] && std::any_of(passes.begin(), passes.end(), [&](const auto& pass) {
                  return life[t].first >= pass.first && life[t].last <= pass.second;
                });
  }
}

struct Sizes {
  int64_t input_elements = 0, arena = 0, passing = 0;
};

/// Lays out those tensors of the arena that are passing, or that are not. Returns their words.
int64_t place_in_arena(EmittedCalls& e, const std::vector<ArenaBlock>& life, bool passing) {
  std::vector<TensorId> movable;
  std::vector<ArenaBlock> blocks;
  for (TensorId t = 0; t < e.tensors.size(); ++t) {
    const Tensor& x = e.tensors[t];
    const bool elsewhere = x.kind == TensorKind::parameter || x.kind == TensorKind::parameter_gradient ||
                           x.kind == TensorKind::frozen || x.kind == TensorKind::input ||
                           x.kind == TensorKind::label;
    if (!e.tensors.own(t) || elsewhere || life[t].last < 0 || x.passing != passing) continue;
    movable.push_back(t);
    blocks.push_back(life[t]);
  }
  const ArenaLayout layout = lay_out_arena(blocks);
  for (std::size_t i = 0; i < movable.size(); ++i) e.tensors[movable[i]].offset = layout.offsets[i];
  return layout.words;
}

/// Inputs and labels one after the other, what calls touch of all else but parameters in the arena.
Sizes place_tensors(EmittedCalls& e, const std::vector<ArenaBlock>& life) {
  Sizes out;
  for (TensorId t = 0; t < e.tensors.size(); ++t) {
    Tensor& x = e.tensors[t];
    if (!e.tensors.own(t) || (x.kind != TensorKind::input && x.kind != TensorKind::label)) continue;
    x.offset = out.input_elements;
    out.input_elements += arena_aligned(x.elements);
  }
  out.arena = place_in_arena(e, life, false);
  out.passing = place_in_arena(e, life, true);
  for (TensorId t = 0; t < e.tensors.size(); ++t) {
    e.tensors[t].offset = e.tensors[e.tensors.root(t)].offset;
    e.tensors[t].passing = e.tensors[e.tensors.root(t)].passing;
  }
  return out;
}

}  // namespace

/// Never changes once made.
struct ExecutionGraph::Impl {
  Impl(const Graph& g, int64_t samples, bool training, Precision precision, const SliceUse& use)
      : graph(g), batch(samples), calls(element_bytes(precision) == 2) {
    const GradientFlow flow = gradient_flow(g, samples, precision, use);
    calls = emit_calls(g, flow, samples, training, element_bytes(precision) == 2, use);
    if (use.fuses && training) fuse_norms(g, flow, calls);
    mark_what_is_fused(calls);
    resolve_memory(calls);
    const std::vector<LayerRange> blocks = add_recomputation(calls, g, flow, use);
    const PassTimes at(calls, blocks);
    const std::vector<ArenaBlock> life = lives(calls, flow, use.parts, at);
    if (use.passes_alone) find_passing(calls, flow, use, at, life);
    sizes = place_tensors(calls, life);
  }
  const Graph& graph;
  int64_t batch;
  EmittedCalls calls;
  Sizes sizes;
};

ExecutionGraph::ExecutionGraph(const Graph& graph, int64_t batch, bool training, Precision precision,
                               const SliceUse& use) {
  if (batch < 1) throw InputError(fmt::format("a batch of {} samples: at least 1 is needed", batch));
  impl_ = std::make_unique<Impl>(graph, batch, training, precision, use);
}
ExecutionGraph::~ExecutionGraph() = default;
ExecutionGraph::ExecutionGraph(ExecutionGraph&&) noexcept = default;

const Graph& ExecutionGraph::graph() const { return impl_->graph; }
int64_t ExecutionGraph::batch() const { return impl_->batch; }
const std::vector<Tensor>& ExecutionGraph::tensors() const { return impl_->calls.tensors.list(); }
const std::vector<Call>& ExecutionGraph::forward(uint32_t layer) const {
  return impl_->calls.forward.at(layer);
}
const std::vector<Call>& ExecutionGraph::backward(uint32_t layer) const {
  return impl_->calls.backward.at(layer);
}
const std::vector<Call>& ExecutionGraph::recompute(uint32_t layer) const {
  return impl_->calls.recompute.at(layer);
}
const std::vector<LearnedTensor>& ExecutionGraph::learned() const { return impl_->calls.learned; }
const std::vector<LearnedTensor>& ExecutionGraph::frozen() const { return impl_->calls.frozen; }
int64_t ExecutionGraph::frozen_elements() const { return impl_->calls.frozen_elements; }
int64_t ExecutionGraph::frozen_words() const { return impl_->calls.frozen_words; }
std::vector<float> ExecutionGraph::stored(const std::vector<float>& values) const {
  std::vector<float> out(static_cast<std::size_t>(frozen_words()));
  for (const LearnedTensor& l : frozen()) {
    const Tensor& t = tensors()[l.parameter];
    const float* from = values.data() + l.first;
    const auto to = out.begin() + t.offset;
    if (l.stored.empty())
      std::copy_n(from, t.elements, to);
    else
      std::ranges::copy(store(StoredShape(l.stored), from), to);
  }
  return out;
}
int64_t ExecutionGraph::parameters() const { return impl_->calls.parameters; }
int64_t ExecutionGraph::input_elements() const { return impl_->sizes.input_elements; }
int64_t ExecutionGraph::arena() const { return impl_->sizes.arena; }
int64_t ExecutionGraph::passing() const { return impl_->sizes.passing; }
const std::vector<TensorId>& ExecutionGraph::inputs() const { return impl_->calls.inputs; }
const std::vector<TensorId>& ExecutionGraph::labels() const { return impl_->calls.labels; }
const std::vector<TensorId>& ExecutionGraph::losses() const { return impl_->calls.losses; }
int64_t ExecutionGraph::values(TensorId input) const {
  for (const auto& calls : impl_->calls.forward) {
    for (const Call& c : calls) {
      if (c.function == Function::embedding && c.operands[2] == input) return c.shape[2];
      if (c.function == Function::cross_entropy && c.operands[3] == input) return c.shape[1];
    }
  }
  return 1;
}
const SliceTensors& ExecutionGraph::slice(uint32_t layer) const { return impl_->calls.slice.at(layer); }
TensorId ExecutionGraph::output() const { return impl_->calls.output; }
TensorId ExecutionGraph::logits() const { return impl_->calls.logits; }

}  // namespace tandem::exec
