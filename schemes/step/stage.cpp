// SPDX-License-Identifier: Apache-2.0
#include "schemes/step/stage.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "schemes/step/training.h"

namespace tandem::schemes {

namespace {

/// Writes the steps of one passage.
class Writer {
 public:
  explicit Writer(const ChunkInput& in)
      : in_(in), layers_(in.work->graph->layers()), lowered_(in.work->layers) {}

  /// Ends the run of layers: the next compute step waits for `step`, if that is one.
  void close(int32_t step = -1) {
    open_ = -1;
    if (step < 0) return;
    (out_.steps[index(step)].of_bucket() ? gathered_ : awaited_) = step;
  }

  /// A layer's kernels join the open run, or begin one. `after`: what they wait for besides the last join.
  void compute(uint32_t layer, Pass pass, bool parts, const std::vector<Kernel>& kernels,
               int32_t after = -1) {
    if (kernels.empty() && open_ < 0) return;
    const bool fits = open_ >= 0 && after < 0 && out_.steps[index(open_)].parts == parts &&
                      out_.steps[index(open_)].again == again_ &&
                      (!parts || out_.steps[index(open_)].pass == pass);
    if (!fits) {
      PassageStep step{PassageStep::Kind::compute, {layer, 1}, pass, parts, again_};
      step.after = std::max(after, awaited_);
      step.gathered = gathered_;
      open_ = last_ = add(std::move(step));
    }
    PassageStep& step = out_.steps[index(open_)];
    const uint32_t end = std::max(step.layers.end(), layer + 1);
    step.layers.first = std::min(step.layers.first, layer);
    step.layers.layers = end - step.layers.first;
    step.kernels.insert(step.kernels.end(), kernels.begin(), kernels.end());
  }

  /// A collective among the devices that share layers, after what was computed last.
  int32_t join(CollKind kind, uint32_t layer, int64_t elements_of_sample, bool gradients = false) {
    PassageStep step{PassageStep::Kind::join, {layer, 1}};
    step.gradients = gradients;
    step.collective = kind;
    step.bytes = Bytes{element_bytes(in_.work->precision)} *
                 checked_mul(elements_of_sample, in_.work->batch, "the activations");
    step.after = last_;
    return add(std::move(step));
  }

  /// What devices exchange in the middle of a pass.
  int32_t exchange(uint32_t layer, const Exchange& e) {
    constexpr CollKind kinds[] = {CollKind::all_to_all, CollKind::all_gather, CollKind::reduce_scatter,
                                  CollKind::shift,      CollKind::all_reduce, CollKind::all_reduce};
    PassageStep step{PassageStep::Kind::join, {layer, 1}};
    step.inside = true;
    step.collective = kinds[static_cast<std::size_t>(e.kind)];
    step.bytes = Bytes{element_bytes(in_.work->precision)} * e.elements;
    step.active = e.active;
    step.count = e.count;
    step.after = last_;
    return add(std::move(step));
  }

  /// A layer's kernels with what is exchanged between them, each exchange after the kernels that it waits
  /// for and before those that wait for it.
  void compute(uint32_t layer, Pass pass, bool parts, const std::vector<Kernel>& kernels,
               const std::vector<Exchange>& exchanges) {
    if (exchanges.empty()) return compute(layer, pass, parts, kernels);
    std::vector<int32_t> steps(exchanges.size(), -1);
    std::vector<Kernel> run;
    for (uint32_t k = 0; k <= kernels.size(); ++k) {
      const bool cut = std::any_of(exchanges.begin(), exchanges.end(),
                                   [k](const Exchange& e) { return e.after == k || e.before == k; });
      if (cut && !run.empty()) compute(layer, pass, parts, run);
      if (cut) {
        run.clear();
        close();
      }
      for (std::size_t e = 0; e < exchanges.size(); ++e) {
        if (exchanges[e].after == k) steps[e] = exchange(layer, exchanges[e]);
        if (exchanges[e].before == k) close(steps[e]);
      }
      if (k < kernels.size()) run.push_back(kernels[k]);
    }
    if (!run.empty()) compute(layer, pass, parts, run);
  }

  /// Parameters of the layers, gathered while what was computed last but one goes on. Returns the last step.
  int32_t gather(LayerRange layers) {
    const int64_t element = element_bytes(in_.work->precision);
    Bytes frozen;  // weights that stay, of experts too, lie with the first bucket
    for (uint32_t i = layers.first; i < layers.end(); ++i) frozen += layers_[i].frozen_bytes(element);
    if (backward_ && kept(layers)) return -1;
    int32_t last = -1;
    for (uint32_t b = 0; b < in_.buckets->size(); ++b) {
      const StageBucket& bucket = (*in_.buckets)[b];
      if (!bucket.gathered || (backward_ && bucket.kept) || !needs(layers, bucket) || !have_.insert(b).second)
        continue;
      last = gather(layers, b, Bytes{element} * bucket.elements + frozen);
      frozen = {};
    }
    return frozen.n > 0 ? gather(layers, 0, frozen) : last;
  }
  /// Are all parameters of the layers still there from the forward pass?
  bool kept(LayerRange layers) const {
    bool all = true;
    for (const StageBucket& b : *in_.buckets) all = all && (b.kept || !needs(layers, b));
    return all;
  }
  /// A bucket of the layers' own, or with a weight of another unit that an output layer among them uses.
  bool needs(LayerRange layers, const StageBucket& bucket) const {
    if (bucket.layers.first >= layers.first && bucket.layers.first < layers.end()) return true;
    for (uint32_t i = layers.first; i < layers.end() && !bucket.dealt; ++i) {
      const auto owner = in_.work->graph->tied_to(i);
      if (owner && *owner >= bucket.layers.first && *owner < bucket.layers.end()) return true;
    }
    return false;
  }
  int32_t gather(LayerRange layers, uint32_t bucket, Bytes bytes) {
    PassageStep step{PassageStep::Kind::gather, layers};
    step.bucket = bucket;
    step.collective = CollKind::all_gather;
    step.bytes = bytes;
    step.after = last_;
    return add(std::move(step));
  }

  /// Of the bucket's gradients, which are there; `more`: others of the chunk follow.
  int32_t scatter(uint32_t bucket, bool more) {
    PassageStep step{PassageStep::Kind::scatter, (*in_.buckets)[bucket].layers};
    step.bucket = bucket;
    step.collective = CollKind::reduce_scatter;
    step.after = last_;
    const int32_t before = std::exchange(scattered_, add(std::move(step)));
    if (!in_.gathers && more && before >= 0) close(before);
    return scattered_;
  }

  void go_backward() { backward_ = true; }
  /// What follows is a recomputed forward pass.
  void set_again(bool again) { again_ = again; }

  int32_t last() const { return last_; }
  Passage& out() { return out_; }
  const ChunkInput& in() const { return in_; }
  const Layer& layer(uint32_t i) const { return layers_[i]; }
  const Lowered& lowered(uint32_t i) const { return lowered_[i]; }

 private:
  static std::size_t index(int32_t step) { return static_cast<std::size_t>(step); }
  int32_t add(PassageStep step) {
    out_.steps.push_back(std::move(step));
    return static_cast<int32_t>(out_.steps.size()) - 1;
  }

  const ChunkInput& in_;
  const std::vector<Layer>& layers_;
  const std::vector<Lowered>& lowered_;
  Passage out_;
  int32_t open_ = -1, last_ = -1, awaited_ = -1, gathered_ = -1, scattered_ = -1;
  bool again_ = false, backward_ = false;
  std::set<uint32_t>
      have_;  ///< buckets that were gathered; a tied weight stays until its other layer is done
};

/// Elements of one sample of what the layer gives, as all its partners have it together.
int64_t whole_output(const Writer& w, uint32_t layer) {
  return checked_mul(elements(w.layer(layer).output), w.in().work->graph->shared_by(), "the activations");
}

/// Forward over `layers`; `again`: for recomputation; `needed` as in forward_passage().
void write_forward(Writer& w, LayerRange layers, bool again, const std::vector<uint32_t>& needed = {}) {
  std::vector<uint32_t> gathered;  // producers whose parts of the sequence are together already
  w.set_again(again);
  for (uint32_t i = layers.first; i < layers.end(); ++i) {
    const Lowered& l = w.lowered(i);
    if (w.layer(i).type == nullptr) continue;
    if (std::count(needed.begin(), needed.end(), i) > 0) w.close();
    for (const uint32_t from : w.layer(i).inputs) {
      if (l.input_join != Join::gather || std::count(gathered.begin(), gathered.end(), from) > 0) continue;
      gathered.push_back(from);
      w.close(w.join(CollKind::all_gather, from, whole_output(w, from)));
    }
    if (again)
      w.compute(i, Pass::backward_weights, false, w.in().work->again(i), l.forward_exchanges);
    else
      w.compute(i, Pass::forward, false, l.forward, l.forward_exchanges);
    if (l.output_join == Join::sum)
      w.close(w.join(CollKind::all_reduce, i, elements(w.layer(i).output)));
    else if (l.output_join == Join::scatter)
      w.close(w.join(CollKind::reduce_scatter, i, whole_output(w, i)));
  }
  w.set_again(false);
}

/// Backward over one chunk.
class Backward {
 public:
  Backward(const ChunkInput& in, Slot::What what, const std::vector<Cut>& cuts)
      : w_(in), in_(in), what_(what), cuts_(cuts), readers_(in.work->graph->layers().size()) {
    w_.go_backward();
    for (uint32_t i = in.layers.first; i < in.layers.end(); ++i) {
      if (w_.lowered(i).input_join == Join::none) continue;
      for (const uint32_t from : w_.layer(i).inputs) ++readers_[from];
    }
  }

  Passage run() {
    const auto units = units_of(*in_.work->graph, in_.layers);
    const auto blocks = blocks_again(in_.work->recompute, *in_.work->graph, in_.layers);
    const bool gathers = in_.gathers && !in_.keeps_all;
    int32_t ahead = gathers ? w_.gather(units.back()) : -1;
    for (std::size_t u = units.size(); u-- > 0;) {
      if (ahead >= 0) w_.close(ahead);
      if (gathers) ahead = u > 0 ? w_.gather(units[u - 1]) : -1;
      const bool again = std::count(blocks.begin(), blocks.end(), units[u]) > 0;
      if (again && what_ != Slot::What::weights) write_forward(w_, units[u], true);
      for (uint32_t i = units[u].end(); i-- > units[u].first;) layer(i);
    }
    // What lies before the chunk and is read several times there: its gradients are summed here.
    for (uint32_t i = in_.layers.first; i-- > 0 && what_ != Slot::What::weights;) {
      if (w_.layer(i).type == nullptr && !w_.lowered(i).backward_data.empty() && reads(i))
        w_.compute(i, Pass::backward_data, parts(), w_.lowered(i).backward_data);
    }
    while (next_ < cuts_.size()) reach(false);
    return std::move(w_.out());
  }

 private:
  /// Does a layer of the chunk read the output of layer `from`?
  bool reads(uint32_t from) const {
    for (uint32_t i = in_.layers.first; i < in_.layers.end(); ++i) {
      const auto& inputs = w_.layer(i).inputs;
      if (std::count(inputs.begin(), inputs.end(), from) > 0) return true;
    }
    return false;
  }
  bool parts() const { return what_ != Slot::What::backward; }
  Pass pass_of_data() const { return parts() ? Pass::backward_data : Pass::backward_weights; }

  void layer(uint32_t i) {
    const Lowered& l = w_.lowered(i);
    if (w_.layer(i).type == nullptr) return;
    int32_t inputs = -1;  // the inputs of all partners, which the parameters' gradients need
    if (what_ != Slot::What::weights) {
      if (const auto again = in_.work->again_alone(i); !again.empty())
        w_.compute(i, pass_of_data(), parts(), again);
      if (l.output_join == Join::scatter)
        w_.close(w_.join(CollKind::all_gather, i, whole_output(w_, i), true));
      if (what_ == Slot::What::backward) inputs = gather_inputs(i);
      w_.compute(i, pass_of_data(), parts(), l.backward_data, l.backward_exchanges);
    } else {
      inputs = gather_inputs(i);
    }
    const int32_t sum = what_ == Slot::What::weights ? -1 : sum_inputs(i);
    if (what_ != Slot::What::data) weights(i, sum, inputs);
    if (sum >= 0) w_.close(sum);
    while (next_ < cuts_.size() && cuts_[next_].layer == i) reach(i > in_.layers.first);
  }

  /// `more`: layers of the chunk follow.
  void reach(bool more) {
    const Cut& cut = cuts_[next_++];
    if (more) w_.close();
    w_.out().reached.push_back(w_.last());
    w_.out().scattered.push_back(cut.scatters < 0 ? -1
                                                  : w_.scatter(static_cast<uint32_t>(cut.scatters), more));
  }

  /// Under the sum of the inputs' gradients, where there is one; where inputs are gathered for them, alone.
  void weights(uint32_t i, int32_t sum, int32_t inputs) {
    std::vector<Kernel> kernels = w_.lowered(i).backward_weights;
    if (in_.micro_batches > 1) {
      for (const Parameter& p : w_.layer(i).parameters)
        kernels.push_back(accumulation_kernel(p.elements, in_.micro_batches));
    }
    if (sum >= 0) w_.close();
    w_.compute(i, Pass::backward_weights, parts() || sum >= 0 || inputs >= 0, kernels, inputs);
  }

  int32_t gather_inputs(uint32_t i) {
    const ModelSlice& sharing = in_.work->graph->sharing();
    const bool kept = sharing.keeps_inputs || sharing.samples;
    if (kept || w_.lowered(i).input_join != Join::gather || w_.lowered(i).backward_weights.empty()) return -1;
    int32_t last = -1;
    for (const uint32_t from : w_.layer(i).inputs) {
      const auto known = gathered_.find(from);
      last = known != gathered_.end()
                 ? known->second
                 : gathered_.emplace(from, w_.join(CollKind::all_gather, from, whole_output(w_, from)))
                       .first->second;
    }
    return last;
  }

  /// When all that read a tensor in parts have made their share of its gradient.
  int32_t sum_inputs(uint32_t i) {
    const Lowered& l = w_.lowered(i);
    if (l.input_join == Join::none || l.backward_data.empty()) return -1;
    int32_t last = -1;
    for (const uint32_t from : w_.layer(i).inputs) {
      if (--readers_[from] > 0) continue;
      last = l.input_join == Join::copy
                 ? w_.join(CollKind::all_reduce, from, elements(w_.layer(from).output), true)
                 : w_.join(CollKind::reduce_scatter, from, whole_output(w_, from), true);
    }
    return last;
  }

  Writer w_;
  const ChunkInput& in_;
  const Slot::What what_;
  const std::vector<Cut>& cuts_;
  std::vector<int32_t> readers_;          ///< [layer]: those in the chunk that read it in parts
  std::map<uint32_t, int32_t> gathered_;  ///< layer -> the step that gathered its output
  std::size_t next_ = 0;
};

}  // namespace

std::vector<LayerRange> units_of(const Graph& graph, LayerRange layers) {
  std::vector<LayerRange> out;
  for (uint32_t i = layers.first; i < layers.end(); ++i) {
    if (out.empty() || block_of(graph.layers()[i]) != block_of(graph.layers()[i - 1])) out.push_back({i, 0});
    ++out.back().layers;
  }
  return out;
}

std::string label_of(const Graph& graph, const PassageStep& step) {
  const std::string range = range_name(graph, step.layers);
  if (step.kind == PassageStep::Kind::gather) return "all-gather " + range;
  if (step.kind == PassageStep::Kind::scatter) return "reduce-scatter " + range;
  if (step.kind == PassageStep::Kind::join)
    return fmt::format("{} {}",
                       step.collective == CollKind::all_reduce   ? "sum"
                       : step.collective == CollKind::all_gather ? "gather"
                       : step.collective == CollKind::all_to_all ? "exchange tokens of"
                       : step.collective == CollKind::shift      ? "pass on"
                                                                 : "scatter",
                       range);
  const std::string_view what = step.again                         ? "again"
                                : step.pass == Pass::forward       ? "forward"
                                : !step.parts                      ? "backward"
                                : step.pass == Pass::backward_data ? "backward-data"
                                                                   : "backward-weights";
  return fmt::format("{} {}", what, range);
}

Passage forward_passage(const ChunkInput& in, const std::vector<uint32_t>& needed) {
  Writer w(in);
  if (!in.gathers) {
    write_forward(w, in.layers, false, needed);
    return std::move(w.out());
  }
  const auto units = units_of(*in.work->graph, in.layers);
  int32_t ahead = w.gather(units.front());
  for (std::size_t u = 0; u < units.size(); ++u) {
    if (ahead >= 0) w.close(ahead);
    ahead = u + 1 < units.size() ? w.gather(units[u + 1]) : -1;
    write_forward(w, units[u], false);
  }
  return std::move(w.out());
}

Passage backward_passage(const ChunkInput& in, Slot::What what, const std::vector<Cut>& cuts) {
  return Backward(in, what, cuts).run();
}

ChunkPassages passages_of(const ChunkInput& in, const std::vector<Cut>& cuts,
                          const std::vector<uint32_t>& needed) {
  using What = Slot::What;
  ChunkInput rest = in;
  rest.gathers = in.gathers && !in.gathers_once;
  ChunkPassages out{forward_passage(rest), backward_passage(rest, What::backward),
                    backward_passage(rest, What::backward, cuts), backward_passage(rest, What::data),
                    backward_passage(rest, What::weights, cuts)};
  if (in.gathers_once || !needed.empty()) out.first = forward_passage(in, needed);
  return out;
}

std::vector<StageBucket> stage_buckets(Builder& builder, uint32_t role, const Graph& slice,
                                       const std::vector<LayerRange>& chunks, const StageBucketRule& rule) {
  std::vector<StageBucket> out;
  GivenBuckets given(rule.given, builder.program());
  const auto fill = [&](LayerRange layers, int32_t chunk, bool dealt) {
    BucketFiller filler(out, rule.element, rule.partition.n / rule.element);
    for (const TensorPart& t : tensors_of(slice, layers)) {
      const bool last = t.of == &slice.layers()[t.layer].parameters.front();  // of its layer
      const bool tied = !dealt && std::count(rule.tied.begin(), rule.tied.end(), t.layer) > 0,
                 own = tied && last;
      const std::size_t before = out.size();
      if (own) filler.close();
      const auto full = [&](int64_t part) {
        return given.any() ? given.end_with(part) || own : own || rule.by_tensor;
      };
      if (tied || !rule.apart || t.of->dealt == dealt) filler.add(t, full, own);
      for (std::size_t i = before; i < out.size(); ++i) {
        out[i].chunk = chunk;
        out[i].dealt = dealt;
        out[i].tied = own;
      }
      if (last && filler.open() && !given.any() && !rule.by_unit && out.back().bytes >= rule.limit)
        filler.close();
    }
  };
  for (const bool dealt : {false, true}) {
    if (dealt && !rule.apart) break;
    for (auto chunk = static_cast<int32_t>(chunks.size()); chunk-- > 0;) {
      const LayerRange all = chunks[static_cast<std::size_t>(chunk)];
      const auto units = rule.by_unit ? units_of(slice, all) : std::vector{all};
      for (std::size_t u = units.size(); u-- > 0;) fill(units[u], chunk, dealt);
    }
  }
  for (StageBucket& b : out) {
    b.key = builder.bucket(b.elements, role);
    b.name = (b.dealt ? "experts of " : "") + range_name(slice, b.layers);
    b.in_parts = b.tensors.back().of->in_parts;
  }
  std::stable_sort(out.begin(), out.end(), [](const StageBucket& a, const StageBucket& b) {
    return a.chunk != b.chunk ? a.chunk > b.chunk : a.layers.first > b.layers.first;
  });
  return out;
}

Bytes bytes_of_outputs(const Workload& work, const Graph& graph, const std::vector<uint32_t>& layers) {
  Bytes sum;
  for (const uint32_t layer : layers)
    sum += Bytes{element_bytes(work.precision)} *
           checked_mul(elements(graph.layers()[layer].output), work.batch, "the activations");
  return sum;
}

int64_t elements_in_parts(const StageBucket& bucket) {
  int64_t sum = 0;
  for (const TensorPart& t : bucket.tensors) sum += t.of->in_parts && !bucket.dealt ? t.elements : 0;
  return sum;
}

}  // namespace tandem::schemes
