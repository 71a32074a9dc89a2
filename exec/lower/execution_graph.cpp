// SPDX-License-Identifier: Apache-2.0
// Makes a Graph executable in four phases, each with a state of its own: who hands gradients to whom
// (gradient_flow.h), each layer's calls (emitted_calls.h), then here whose memory each operand is, and where
// all that is placed.
#include "exec/lower/execution_graph.h"

#include <fmt/format.h>

#include <algorithm>

#include "exec/lower/arena.h"
#include "exec/lower/emitted_calls.h"
#include "exec/lower/fused_norm.h"
#include "exec/lower/gradient_flow.h"
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

/// A sent output is read until its gradient is there; what is received is written before the passes that read
/// it, and a gradient may leave long after the pass that made it.
void extend_exchanged(const EmittedCalls& e, const GradientFlow& flow, std::vector<ArenaBlock>& out) {
  const auto layers = static_cast<int64_t>(e.forward.size());
  for (uint32_t i = 0; i < layers; ++i) {
    const SliceTensors& s = e.slice[i];
    const bool received = e.forward[i].empty() && !e.elsewhere[i] && s.output != kNoTensor;
    if (flow.outputs[i].sent) extend(out[s.output], i, 2 * layers - 1 - i);
    if (s.arriving != kNoTensor) extend(out[s.arriving], layers, 2 * layers - 1 - i);
    if (received) extend(out[s.output], i, i);
    if (received && s.gradient != kNoTensor) extend(out[s.gradient], 2 * layers - 1 - i, 3 * layers);
    for (const auto* exchanges : {&s.forward, &s.backward}) {
      const int64_t pass = exchanges == &s.forward ? i : 2 * layers - 1 - i;
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
void extend_scattered(const EmittedCalls& e, const GradientFlow& flow, bool parts,
                      std::vector<ArenaBlock>& out) {
  const auto layers = static_cast<int64_t>(e.forward.size());
  for (uint32_t i = 0; i < layers; ++i) {
    const SliceTensors& s = e.slice[i];
    const int64_t back = 2 * layers - 1 - i;
    if (s.made != kNoTensor) extend(out[s.output], i, i);
    if (s.made_gradient != kNoTensor) {
      extend(out[s.made_gradient], back, back);
      extend(out[s.gradient], back, back);
    }
    for (const uint32_t reader : flow.outputs[i].readers) {
      if (flow.lowered[reader].input_join != Join::gather) continue;
      const int64_t read_back = 2 * layers - 1 - reader, again = read_back + (parts ? layers : 0);
      extend(out[s.output], i, s.gathered_again != kNoTensor ? again : reader);
      extend(out[s.gathered], i, reader);
      if (s.gathered_again != kNoTensor) extend(out[s.gathered_again], read_back, again);
      if (s.scattered != kNoTensor) {
        extend(out[s.partial], read_back, read_back);
        extend(out[s.scattered], read_back, read_back);
      }
    }
  }
}

/// [tensor]: first and last layer pass that touches it, last < first where none does; forward of layer i is
/// pass i, backward 2 layers - 1 - i, and where parameters' gradients are made apart theirs 3 layers - 1 - i.
/// Running statistics and losses stay.
std::vector<ArenaBlock> lives(const EmittedCalls& e, const GradientFlow& flow, bool parts) {
  const auto layers = static_cast<int64_t>(e.forward.size());
  std::vector<ArenaBlock> out(e.tensors.size(), {0, INT64_MAX, -1});
  const auto touch = [&](const std::vector<Call>& calls, int64_t pass) {
    for (const Call& c : calls) {
      const int64_t at = parts && c.pass == Pass::backward_weights ? pass + layers : pass;
      for (const TensorId t : c.operands) extend(out[t], std::min(pass, at), at);
    }
  };
  for (int64_t i = 0; i < layers; ++i) {
    touch(e.forward[static_cast<std::size_t>(i)], i);
    touch(e.backward[static_cast<std::size_t>(i)], 2 * layers - 1 - i);
  }
  extend_exchanged(e, flow, out);
  extend_scattered(e, flow, parts, out);
  for (TensorId t = 0; t < e.tensors.size(); ++t) {
    const Tensor& x = e.tensors[t];
    out[t].words = x.words();
    if (x.kind == TensorKind::buffer || x.kind == TensorKind::loss)
      out[t].first = 0, out[t].last = 3 * layers;
  }
  return out;
}

struct Sizes {
  int64_t input_elements = 0, arena = 0;
};

/// Inputs and labels one after the other, what calls touch of all else but parameters in the arena.
Sizes place_tensors(EmittedCalls& e, const std::vector<ArenaBlock>& life) {
  Sizes out;
  std::vector<TensorId> movable;
  std::vector<ArenaBlock> blocks;
  for (TensorId t = 0; t < e.tensors.size(); ++t) {
    Tensor& x = e.tensors[t];
    if (!e.tensors.own(t) || x.kind == TensorKind::parameter || x.kind == TensorKind::parameter_gradient ||
        x.kind == TensorKind::frozen)
      continue;
    if (x.kind == TensorKind::input || x.kind == TensorKind::label) {
      x.offset = out.input_elements;
      out.input_elements += arena_aligned(x.elements);
    } else if (life[t].last >= 0) {
      movable.push_back(t);
      blocks.push_back(life[t]);
    }
  }
  const ArenaLayout layout = lay_out_arena(blocks);
  for (std::size_t i = 0; i < movable.size(); ++i) e.tensors[movable[i]].offset = layout.offsets[i];
  for (TensorId t = 0; t < e.tensors.size(); ++t) e.tensors[t].offset = e.tensors[e.tensors.root(t)].offset;
  out.arena = layout.words;
  return out;
}

}  // namespace

/// Never changes once made.
struct ExecutionGraph::Impl {
  Impl(const Graph& g, int64_t samples, bool training, Precision precision, const SliceUse& use)
      : graph(g), batch(samples), calls(element_bytes(precision) == 2) {
    const GradientFlow flow = gradient_flow(g, samples, precision, use);
    calls = emit_calls(g, flow, samples, training, element_bytes(precision) == 2, use);
    if (use.fuses && training) fuse_norms(g, use, calls);
    resolve_memory(calls);
    sizes = place_tensors(calls, lives(calls, flow, use.parts));
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
