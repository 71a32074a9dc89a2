// SPDX-License-Identifier: Apache-2.0
#include "exec/workers/passes.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "exec/layout/gather_buffers.h"
#include "exec/layout/memory.h"

namespace tandem::exec {

Passes::Passes(const Workplace& place, const PassPlan& plan, const GradientSums& sums, Input& input)
    : OpHandler(place), pass_plan_(plan), sums_(sums), input_(input) {
  for (uint32_t i = 0; i < plan.layers(); ++i) prepare_layer(i);
  find_uses();
  if (!plan_.execution().integer_gradients) return;
  driver_->reserve_staging(LaneDriver::Staging::integers, graph().parameters());
  find_whole();
}

/// Index of each element of the flat vector in the model's; -1: another worker computes its gradient.
void Passes::find_whole() {
  const ExecutionGraph& n = graph();
  whole_.assign(static_cast<std::size_t>(n.parameters()), -1);
  for (const MappedRange& p : plan_.stages().parameter_map(instance_)) {
    if (p.copy) continue;  // its owner computes the gradient
    std::iota(whole_.begin() + p.own, whole_.begin() + p.own + p.elements, p.whole);
  }
  // If devices see parts of a sequence the first computes the whole gradient.
  if (plan_.stages().place(instance_).context > 0) whole_.assign(whole_.size(), -1);
  for (const Slice& s : in_parts(n)) {
    if (plan_.stages().place(instance_).partner > 0 && !plan_.stages().own_samples())
      std::fill_n(whole_.begin() + s.first, s.elements, int64_t{-1});
  }
}

/// The layer's passes, in parts if devices exchange something in the middle, and its backward pass in two.
/// Parameters' gradients that the inputs' need (batch normalisation's sums) go with those.
void Passes::prepare_layer(uint32_t layer) {
  const SliceTensors& slice = graph().slice(layer);
  LayerLaunches& own = layers_.emplace_back();
  const std::vector<uint32_t> forward_cuts = part_cuts(slice.forward), cuts = part_cuts(slice.backward);
  const auto part_of = [](const std::vector<uint32_t>& of, std::size_t call) {
    return static_cast<std::size_t>(
        std::distance(of.begin(), std::upper_bound(of.begin(), of.end(), static_cast<uint32_t>(call))));
  };
  own.forward.resize(forward_cuts.size() + 1);
  own.data.resize(cuts.size() + 1);
  for (const Call& call : graph().recompute(layer)) own.recompute.push_back(prepare(call));
  const std::vector<Call>&forward = graph().forward(layer), &backward = graph().backward(layer);
  for (std::size_t k = 0; k < forward.size(); ++k)
    own.forward[part_of(forward_cuts, k)].push_back(prepare(forward[k]));
  for (std::size_t k = 0; k < backward.size(); ++k) {
    own.backward.push_back(prepare(backward[k]));
    const bool needed = std::any_of(
        backward.begin() + static_cast<std::ptrdiff_t>(k) + 1, backward.end(), [&](const Call& c) {
          return c.pass == Pass::backward_data &&
                 std::find(c.operands.begin(), c.operands.end(), backward[k].operands[0]) != c.operands.end();
        });
    const bool data = backward[k].pass == Pass::backward_data || needed;
    (data ? own.data[part_of(cuts, k)] : own.weights).push_back(own.backward.back());
  }
}

Launch Passes::prepare(const Call& lowered) {
  std::vector<float*> copies;
  const Call call = copies_.with_copies(lowered, copies);
  Launch l;
  l.prepared = device_->prepare(call);
  l.time = driver_->timed(call);
  const bool reads_input = std::any_of(call.operands.begin(), call.operands.end(), [&](TensorId t) {
    const TensorKind k = graph().tensors()[t].kind;
    return k == TensorKind::input || k == TensorKind::label;
  });
  for (int64_t v = 0; v < (reads_input || memory_.slots() > 1 ? memory_.variants() : 1); ++v) {
    l.operands.emplace_back();
    for (const TensorId t : call.operands) l.operands.back().push_back(tensor(t, v));
    l.operands.back().insert(l.operands.back().end(), copies.begin(), copies.end());
  }
  return l;
}

/// With Execution::poison: the ops after which parameters gathered for them are no longer needed. At first
/// nothing is gathered and there are no gradients.
void Passes::find_uses() {
  forgets_.resize(role().ops.size());
  if (!plan_.execution().poison) return;
  constexpr float kNoNumber = std::numeric_limits<float>::quiet_NaN();
  for (const auto& [memory, held] : {std::pair{memory_.parameters(), &memory_.held_parameters()},
                                     std::pair{memory_.gradients(), &memory_.held_gradients()}})
    device_->scale(memory + held->elements - held->rooms(), kNoNumber, held->rooms(), Lane::compute);
  for (const Life& life : parameter_lives(plan_.program(), plan_.stages().place(instance_).role, graph(),
                                          plan_.execution().job.offload.parameters)) {
    if (!in_gather_buffer(life.key)) forget(life.key, Lane::compute);
    const Op& last = role().ops[life.ops.back()];
    if (last.kind == OpKind::compute) forgets_[life.ops.back()].push_back(life.key);
  }
  device_->synchronize(Lane::compute);
}

/// All of a bucket except the worker's own share, if that stays within it.
void Passes::forget(uint32_t key, Lane lane) {
  constexpr float kNoNumber = std::numeric_limits<float>::quiet_NaN();
  const Bucket& bucket = plan_.program().buckets[key];
  float* const at = parameters_at(bucket.first);
  const Slice own = in_gather_buffer(key) ? Slice{bucket.first, 0} : plan_.share(key, instance_);
  const int64_t begin = own.first - bucket.first, end = begin + own.elements;
  device_->scale(at, kNoNumber, begin, lane);
  device_->scale(at + end, kNoNumber, bucket.elements - end, lane);
}

void Passes::launch_layers(const PassWork& w, std::size_t variant, const IterationState& s) {
  for (uint32_t k = 0; k < w.count; ++k) {
    const uint32_t layer = w.forward || w.recompute ? w.first + k : w.first + w.count - 1 - k,
                   part = w.parts[layer - w.first];
    const LayerLaunches& calls = layers_[layer];
    const bool weights = w.weights[layer - w.first];
    if (w.forward) {
      driver_->launch(calls.forward[part], variant, s);
    } else if (w.recompute) {
      driver_->launch(calls.recompute, variant, s);
    } else if (w.data && weights && calls.data.size() == 1) {
      driver_->launch(calls.backward, variant, s);
    } else {
      if (w.data) driver_->launch(calls.data[part], variant, s);
      if (weights) driver_->launch(calls.weights, variant, s);
    }
  }
}

OpHandler::Act Passes::bind(uint32_t index) {
  const Op& op = role().ops[index];
  const bool split = plan_.stages().split(), loads = plan_.execution().loads();
  const std::vector<Slice> sums = plan_.summed_whole(instance_);
  const PassWork& w = pass_plan_.work(index);
  const bool judges = w.forward && w.first + w.count == layers_.size();
  const bool ends =
      judges && w.parts.back() + 1 == layers_.back().forward.size() && !pass_plan_.judged_later(index);
  // A stage with a loss that copies no input reads the labels itself.
  const bool labels = judges && w.parts.back() == 0 && split && loads && !input_.copies();
  if (labels) driver_->reserve_staging(LaneDriver::Staging::input, graph().input_elements());
  const auto at = static_cast<std::size_t>(slot(op));
  // Error feedback would keep non-finite values for ever.
  const bool alone = run_.store() != nullptr || plan_.execution().job.offload.optimizer || plan_.compresses();
  std::vector<float*> losses;
  for (const TensorId t : graph().losses()) losses.push_back(tensor(t, static_cast<int64_t>(at)));
  return [=, this, micro = int32_t{op.micro}](int32_t iteration) {
    const IterationState s = plan_.state(instance_, iteration, micro);
    const std::size_t variant = split ? at : loads ? static_cast<std::size_t>(iteration % kInputBatches) : 0;
    if (labels) input_.load(s.iteration, variant, static_cast<int32_t>(s.iteration), Lane::compute);
    launch_layers(w, variant, s);
    for (const uint32_t key : forgets_[index]) forget(key, Lane::compute);
    if (ends) driver_->take_losses(losses);
    const int32_t step = iteration * plan_.stages().micros() + micro;
    for (const auto& [begin, end] : w.ranges) {
      device_->unscale(gradients_at(begin), end - begin, alone, Lane::compute);
      if (plan_.execution().integer_gradients) integers(begin, end, step);
      for (const Slice& s : sums)
        sums_.add_up(std::max(begin, s.first), std::min(end, s.first + s.elements),
                     position(plan_, pass_plan_.position(index), iteration), Lane::compute);
    }
    return int64_t{0};
  };
}

/// -8 .. 7, so that sums of many stay exact in single precision.
void Passes::integers(int64_t begin, int64_t end, int32_t iteration) {
  float* const at = gradients_at(begin);
  float* to = driver_->staging(LaneDriver::Staging::integers, iteration, at);
  if (to != at) to += begin;
  const std::vector<uint32_t> own{plan_.stages().place(instance_).replica},
      fed = plan_.stages().fed_by(instance_);
  const int64_t experts = plan_.stages().experts_from(instance_);
  // Of uneven batches the sum over the samples, since only that is an integer.
  const int samples = plan_.stages().uneven() ? static_cast<int>(graph().batch()) : 1;
  const std::vector<Slice> alone =
      plan_.stages().own_samples() ? in_parts(graph()) : std::vector<Slice>{{0, experts}};
  for (int64_t i = begin; i < end; ++i) {
    const bool is_own = std::any_of(alone.begin(), alone.end(),
                                    [i](const Slice& s) { return i >= s.first && i < s.first + s.elements; });
    const int64_t element = whole_[static_cast<std::size_t>(i)];
    int sum = 0;
    for (const uint32_t replica : is_own ? own : fed)
      sum += element < 0 ? 0 : integer_gradient(replica, static_cast<uint32_t>(iteration), element);
    to[i - begin] = static_cast<float>(samples * sum);
  }
  driver_->to_device(at, to, end - begin, Lane::compute);
}

}  // namespace tandem::exec
