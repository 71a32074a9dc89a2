// SPDX-License-Identifier: Apache-2.0
#include "exec/workers/worker.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "exec/device/throttled.h"
#include "exec/layout/memory.h"
#include "exec/run/stream_driver.h"

namespace tandem::exec {

Worker::Worker(Run& run, uint32_t instance)
    : run_(run),
      instance_(instance),
      lanes_(run, instance),
      pushed_(run.program().buckets.size()),
      replied_(pushed_.size()),
      estimates_(role().ops.size()),
      in_row_(role().ops.size()),
      bytes_(role().ops.size()) {
  for (Counter& p : pushed_) run_.abort().watch(&p);
  for (Counter& r : replied_) run_.abort().watch(&r);
}

Worker::~Worker() = default;

bool Worker::needs_thread(Lane lane) const {
  return exec::needs_thread(*run_.execution().backend, lanes_, lane);
}

void Worker::run(Lane lane) {
  if (lane == Lane::compute) join_groups();
  if (lane != Lane::compute) device_->join();
  driver_->run(lane);
  if (lane != Lane::compute || !run_.keep().calls) return;
  for (const auto& ask : asks_) ask();
}

void Worker::drain() noexcept {
  for (int l = 0; device_ && l < kLanes; ++l) {
    try {
      device_->synchronize(static_cast<Lane>(l));
    } catch (const std::exception&) {  // the failure that is reported came before
    }
  }
}

std::vector<float> Worker::read(const float* from, int64_t elements) const {
  std::vector<float> out(static_cast<std::size_t>(elements));
  device_->download(out.data(), from, elements);
  return out;
}

std::vector<float> Worker::parameters() const {
  const PackedLayout& kept = offloads() ? kept_state_ : held_parameters_.kept;
  return kept.give(offloads() ? std::vector<float>(host_parameters_, host_parameters_ + kept.elements())
                              : read(parameters_, kept.elements()),
                   graph().parameters());
}

int64_t Worker::state_words() const {
  const Optimizer& rule = *run_.execution().job.optimizer;
  return rule.flat() ? rule.state * kept_state_.elements() : optimizer_state_.words();
}

void Worker::add_state(std::vector<float*>& operands, float* memory, int64_t first) const {
  const Optimizer& rule = *run_.execution().job.optimizer;
  if (!rule.flat()) operands.push_back(memory);
  for (int64_t k = 0; k < rule.state && rule.flat(); ++k)
    operands.push_back(memory + k * kept_state_.elements() + kept_state_.of(first));
}

std::vector<float> Worker::state() const {
  const float* host = offloads() ? host_state_ : paged_;
  const std::vector<float> kept =
      host != nullptr ? std::vector<float>(host, host + state_words()) : read(state_memory(), state_words());
  return run_.execution().job.optimizer->flat() ? kept_state_.give(kept, graph().parameters()) : kept;
}

/// What the state is at first, of this worker's parameters.
void Worker::set_start_state() {
  const OptimizerState& whole = run_.optimizer_state();
  const auto& pieces = run_.stages().parameter_map(instance_);
  std::vector<float> state;
  if (run_.execution().job.optimizer->flat()) {
    std::vector<float> own;
    take_mapped(pieces, run_.start_state(), run_.execution_graph().parameters(), own, graph().parameters());
    state = kept_state_.take(own, graph().parameters());
  } else {
    take_mapped(state_map(whole, optimizer_state_, pieces), run_.start_state(), whole.words(), state,
                optimizer_state_.words());
  }
  float* const host = offloads() ? host_state_ : paged_;
  if (host != nullptr)
    std::copy(state.begin(), state.end(), host);
  else
    device_->upload(state_memory(), state.data(), static_cast<int64_t>(state.size()));
}

std::vector<float> Worker::averaging() const {
  return kept_state_.give(read(averaging_, kept_state_.elements() * averaging_vectors(run_.program())),
                          graph().parameters());
}

std::vector<float> Worker::values(TensorId t) const { return read(tensor(t), graph().tensors()[t].elements); }

float* Worker::tensor(TensorId t, int64_t variant) const {
  const Tensor& x = graph().tensors()[t];
  switch (x.kind) {
    case TensorKind::input:
    case TensorKind::label:
      return inputs_ + variant * graph().input_elements() + x.offset;
    case TensorKind::buffer:  // statistics of all micro-batches
      return arena_ + x.offset;
    case TensorKind::parameter:
      return parameters_ + held_parameters_.passes.of(x.offset, x.elements);
    case TensorKind::parameter_gradient:
      return gradients_ + held_gradients_.passes.of(x.offset, x.elements);
    case TensorKind::frozen:
      return frozen_ + x.offset;
    default:
      if (x.passing) return arena_ + slots_ * graph().arena() + x.offset;
      return arena_ + (slots_ > 1 ? variant * graph().arena() : 0) + x.offset;
  }
}

int64_t Worker::slot(const Op& op) const { return run_.stages().slots(instance_).of_micro[op.micro]; }

void Worker::open() {
  device_ = run_.execution().backend->open({run_.device_index(instance_), run_.execution().job.precision,
                                            run_.execution().threads, true, run_.execution().route});
  for (const auto& [worker, factor] : run_.execution().throttle) {
    if (worker == instance_) device_ = throttled(std::move(device_), factor);
  }
  allocate();
  set_start_values();
  driver_ = make_lane_driver({run_, instance_, lanes_, *device_});
  find_flat_ranges();
  for (uint32_t i = 0; i < flat_.size(); ++i) prepare_layer(i);
  find_positions();
  find_uses();
  make_loader();
  set_first_batches();
  meet_store();
  if (run_.execution().integer_gradients)
    driver_->reserve_staging(LaneDriver::Staging::integers, graph().parameters());
  for (int l = 0; l < kLanes; ++l) {
    for (LaneOp& op : lanes_[static_cast<Lane>(l)].ops) op.act = action(op.op);
  }
  coordinate();
}

void Worker::allocate() {
  const ExecutionGraph& n = graph();
  slots_ = run_.stages().slots(instance_).count;
  variants_ = run_.stages().split() ? slots_ : run_.execution().loads() ? kInputBatches : 1;
  inputs_ = device_->allocate(variants_ * n.input_elements());
  arena_ = device_->allocate(slots_ * n.arena() + n.passing());
  kept_state_ = kept_state(run_.program(), run_.stages(), instance_);
  held_parameters_ =
      held_parameters(run_.program(), run_.stages(), instance_, run_.execution().job.offload.parameters);
  held_gradients_ = held_gradients(run_.program(), run_.stages(), instance_);
  summed_apart_ = summed_apart(run_.program(), run_.stages(), instance_);
  optimizer_state_ = OptimizerState(*run_.execution().job.optimizer, n);
  const bool paged = run_.execution().job.optimizer->paged && run_.execution().backend->asynchronous;
  parameters_ = device_->allocate(held_parameters_.elements + (offloads() || paged ? 0 : state_words()));
  if (paged) paged_ = device_->allocate_host(state_words());
  allocate_copies();
  if (offloads()) allocate_on_host();
  gradients_ = device_->allocate(held_gradients_.elements);
  frozen_ = device_->allocate(n.frozen_words());
  if (run_.micro_batches() * run_.stages().micros() > 1 && !run_.sums_on_host())
    sums_ = device_->allocate(summed_apart_.elements());
  int64_t most = 0, narrowed = 0;
  for (const Op& op : role().ops) {
    narrowed = std::max(narrowed, narrowed_words(run_.program(), op));
    if (op.kind == OpKind::collective && op.payload == Payload::activations && !run_.stages().split())
      most = std::max(most, op.bytes.n / 4);
  }
  outputs_ = device_->allocate(most);
  narrowed_ = device_->allocate(narrowed);
  half_ = device_->allocate(half_words(run_.program(), role()));
  averaging_ = device_->allocate(kept_state_.elements() * averaging_vectors(run_.program()));
  delayed_ = device_->allocate(n.parameters() * run_.program().delay);
  messages_ = device_->allocate(compressed_words(run_.program(), run_.execution_graph().graph()));
  left_out_ = device_->allocate(n.parameters() * feedback_vectors(run_.program()));
  tied_ = device_->allocate(tied_words(run_.program(), role()));
  joined_ = device_->allocate(sequence_words(role()));
  reloaded_ = device_->allocate(reloaded_words(run_.program(), role(), run_.execution().job.precision));
}

/// Memory that the device's copies reach, and a session of the processors for updates there.
void Worker::allocate_on_host() {
  const Execution& e = run_.execution();
  const Backend& host = e.backend->asynchronous ? backends_registry().at("cpu") : *e.backend;
  host_ = host.open({run_.device_index(instance_), e.job.precision, e.threads, false});
  const auto make = [&](int64_t elements) {
    return e.backend->asynchronous ? device_->allocate_host(elements) : host_->allocate(elements);
  };
  const int64_t kept = kept_state_.elements();
  host_parameters_ = make(kept);
  host_gradients_ = make(kept);
  host_state_ = make(state_words());
  if (run_.sums_on_host()) host_sums_ = make(kept);
  host_narrowed_ = make(reloaded_words(run_.program(), role(), e.job.precision));
}

void Worker::set_start_values() {
  const ExecutionGraph &n = graph(), &whole = run_.execution_graph();
  const auto& pieces = run_.stages().parameter_map(instance_);
  std::vector<float> own;
  take_mapped(pieces, run_.start(), whole.parameters(), own, n.parameters());
  const std::vector<float> kept = held_parameters_.kept.take(own, n.parameters());
  device_->upload(parameters_, kept.data(), held_parameters_.kept.elements());
  renew(all_copied(), Lane::compute);
  device_->synchronize(Lane::compute);
  if (offloads()) {
    const std::vector<float> updated = kept_state_.take(own, n.parameters());
    std::copy(updated.begin(), updated.end(), host_parameters_);
  }
  take_mapped(run_.stages().frozen_map(instance_), run_.frozen(), whole.frozen_elements(), own,
              n.frozen_elements());
  device_->upload(frozen_, n.stored(own).data(), n.frozen_words());
  set_start_state();
  const Checkpoint* saved = run_.execution().start;
  const auto places = buffers(whole, n);
  for (const BufferPlace& b : places) {
    const Tensor& t = n.tensors()[b.tensor];
    const std::vector<float> values(static_cast<std::size_t>(t.elements), t.initial);
    device_->upload(arena_ + t.offset, saved != nullptr ? saved->buffers.data() + b.at : values.data(),
                    t.elements);
  }
  keep_averaging();
  begin_compressed();
  if (!run_.execution().integer_gradients) return;
  whole_.assign(static_cast<std::size_t>(n.parameters()), -1);
  for (const MappedRange& p : pieces) {
    if (p.copy) continue;  // its owner makes the gradient
    std::iota(whole_.begin() + p.own, whole_.begin() + p.own + p.elements, p.whole);
  }
  // Where devices see parts of a sequence the first makes the whole gradient.
  if (run_.stages().place(instance_).context > 0) whole_.assign(whole_.size(), -1);
  for (const Slice& s : in_parts(n)) {
    if (run_.stages().place(instance_).partner > 0 && !run_.stages().own_samples())
      std::fill_n(whole_.begin() + s.first, s.elements, int64_t{-1});
  }
}

/// The anchor is where training begins, the velocity 0, unless a checkpoint says otherwise.
void Worker::keep_averaging() {
  if (averaging_vectors(run_.program()) == 0) return;
  const std::vector<float>& from = run_.start_averaging().empty() ? run_.start() : run_.start_averaging();
  std::vector<float> own;
  take_mapped(run_.stages().parameter_map(instance_), from, run_.execution_graph().parameters(), own,
              graph().parameters());
  const std::vector<float> kept = kept_state_.take(own, graph().parameters());
  device_->upload(averaging_, kept.data(), static_cast<int64_t>(kept.size()));
}

/// With Execution::poison: behind which ops the parameters that were gathered for them are no longer needed.
/// Nothing is gathered yet, nor has a pass made gradients.
void Worker::find_uses() {
  forgets_.resize(role().ops.size());
  if (!run_.execution().poison) return;
  constexpr float kNoNumber = std::numeric_limits<float>::quiet_NaN();
  for (const auto& [memory, held] :
       {std::pair{parameters_, &held_parameters_}, std::pair{gradients_, &held_gradients_}})
    device_->scale(memory + held->elements - held->rooms(), kNoNumber, held->rooms(), Lane::compute);
  for (const Life& life : parameter_lives(run_.program(), run_.stages().place(instance_).role, graph(),
                                          run_.execution().job.offload.parameters)) {
    if (!in_gather_buffer(life.key)) forget(life.key, Lane::compute);
    const Op& last = role().ops[life.ops.back()];
    if (last.kind == OpKind::compute) forgets_[life.ops.back()].push_back(life.key);
  }
  device_->synchronize(Lane::compute);
}

/// All of a bucket but the worker's own share, where that stays within it.
void Worker::forget(uint32_t key, Lane lane) {
  constexpr float kNoNumber = std::numeric_limits<float>::quiet_NaN();
  const Bucket& bucket = run_.program().buckets[key];
  float* const at = parameters_at(bucket.first);
  const Slice own = in_gather_buffer(key) ? Slice{bucket.first, 0} : run_.share(key, instance_);
  const int64_t begin = own.first - bucket.first, end = begin + own.elements;
  device_->scale(at, kNoNumber, begin, lane);
  device_->scale(at + end, kNoNumber, bucket.elements - end, lane);
}

void Worker::set_first_batches() {
  const int64_t elements = graph().input_elements();
  std::vector<float> batch(static_cast<std::size_t>(elements));
  for (int64_t v = 0; v < variants_; ++v) {
    fill_batch(run_.stages().split() ? 0 : v, batch.data());
    device_->upload(inputs_ + v * elements, batch.data(), elements);
  }
}

/// Of ranges those that touch become one.
void Worker::join_ranges(std::vector<Range>& ranges) {
  std::sort(ranges.begin(), ranges.end());
  std::vector<Range> out;
  for (const Range& r : ranges) {
    if (!out.empty() && out.back().second == r.first)
      out.back().second = r.second;
    else
      out.push_back(r);
  }
  ranges = std::move(out);
}

void Worker::find_flat_ranges() {
  const ExecutionGraph& n = graph();
  flat_.resize(n.graph().layers().size());
  for (const LearnedTensor& l : n.learned()) {
    const Tensor& t = n.tensors()[l.parameter];
    if (t.elements > 0) flat_[l.layer].emplace_back(t.offset, t.offset + t.elements);
  }
  for (auto& ranges : flat_) join_ranges(ranges);
}

/// A store in host memory cannot reach into an asynchronous device's.
void Worker::meet_store() {
  sent_ = outgoing_ = run_.exchanges_parameters() ? parameters_ : gradients_;
  replies_ = incoming_ = averaging_vectors(run_.program()) > 0 ? averaging_ : parameters_;
  if (!run_.store() || run_.store()->on_devices()) return;
  if (run_.own_models()) {
    models_.resize(static_cast<std::size_t>(2 * graph().parameters()));
    sent_ = models_.data();
    replies_ = sent_ + graph().parameters();
    return;
  }
  const int64_t words = compressed_words(run_.program(), run_.execution_graph().graph());
  if (words > 0) sent_messages_ = driver_->host_memory(messages_, words);
  const int64_t exchanged = graph().parameters() * run_.exchanged_vectors();  // the state lies behind them
  sent_ = driver_->host_memory(outgoing_, exchanged);
  replies_ = driver_->host_memory(incoming_, exchanged);
}

void Worker::join_groups() {
  const auto& collectives = run_.program().collectives;
  for (uint32_t c = 0; c < collectives.size(); ++c) {
    const Run::Member m = run_.member(collectives[c], instance_);
    if (DeviceGroup* library = run_.library(c, m.group)) library->join(m.rank, *device_);
  }
}

/// The layer's passes, in parts where devices exchange something in the middle, and its backward pass in two.
/// What makes parameters' gradients that the inputs' need (batch normalisation's sums) goes with those.
void Worker::prepare_layer(uint32_t layer) {
  const SliceTensors& slice = graph().slice(layer);
  LayerLaunches& own = layers_.emplace_back();
  // A part begins where an exchange is issued or awaited.
  const auto cuts_of = [](const std::vector<ExchangedTensors>& exchanges) {
    std::set<uint32_t> cuts;
    for (const ExchangedTensors& x : exchanges) cuts.insert({x.before, x.awaited});
    cuts.erase(0);
    return cuts;
  };
  const std::set<uint32_t> forward_cuts = cuts_of(slice.forward), cuts = cuts_of(slice.backward);
  const auto part_of = [](const std::set<uint32_t>& of, std::size_t call) {
    return static_cast<std::size_t>(std::distance(of.begin(), of.upper_bound(static_cast<uint32_t>(call))));
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

Launch Worker::prepare(const Call& lowered) {
  std::vector<float*> copies;
  const Call call = with_copies(lowered, copies);
  Launch l;
  l.prepared = device_->prepare(call);
  l.time = driver_->timed(call);
  const bool reads_input = std::any_of(call.operands.begin(), call.operands.end(), [&](TensorId t) {
    const TensorKind k = graph().tensors()[t].kind;
    return k == TensorKind::input || k == TensorKind::label;
  });
  for (int64_t v = 0; v < (reads_input || slots_ > 1 ? variants_ : 1); ++v) {
    l.operands.emplace_back();
    for (const TensorId t : call.operands) l.operands.back().push_back(tensor(t, v));
    l.operands.back().insert(l.operands.back().end(), copies.begin(), copies.end());
  }
  return l;
}

}  // namespace tandem::exec
