// SPDX-License-Identifier: Apache-2.0
#include "exec/run/worker.h"

#include <fmt/format.h>

#include <algorithm>

#include "exec/run/memory.h"
#include "exec/run/queues.h"

namespace tandem::exec {

Worker::Worker(Run& run, uint32_t instance)
    : run_(run), instance_(instance), pushed_(run.program.buckets.size()), replied_(pushed_.size()) {
  for (LaneState& lane : lanes_) run_.abort.watch(&lane.passed);
  for (Counter& p : pushed_) run_.abort.watch(&p);
  for (Counter& r : replied_) run_.abort.watch(&r);
  const auto& ops = role().ops;
  std::vector<uint32_t> position(ops.size());
  for (uint32_t i = 0; i < ops.size(); ++i) {
    auto& lane = lanes_[static_cast<std::size_t>(ops[i].lane)];
    position[i] = static_cast<uint32_t>(lane.ops.size());
    lane.ops.emplace_back();
    lane.ops.back().op = i;
    lane.pushes = lane.pushes || ops[i].kind == OpKind::send;
    lane.exchanges = lane.exchanges || ops[i].kind == OpKind::send || ops[i].kind == OpKind::recv ||
                     (run_.wire && ops[i].kind == OpKind::collective && ops[i].lane != Lane::compute &&
                      !run_.library_made(ops[i].what));
  }
  estimates_.resize(ops.size());
  bytes_.resize(ops.size());
  for (uint32_t i = 0; i < ops.size(); ++i) {
    Bound& bound = lanes_[static_cast<std::size_t>(ops[i].lane)].ops[position[i]];
    for (const Dep& d : ops[i].deps) {
      if (ops[d.op].lane == ops[i].lane) continue;  // lanes are in order
      const auto& lane = lanes_[static_cast<std::size_t>(ops[d.op].lane)];
      bound.deps.push_back({ops[d.op].lane, position[d.op], static_cast<uint32_t>(lane.ops.size()), d.op,
                            d.lag, ops[d.op].every});
    }
  }
  LaneState& copy = lane(Lane::copy);
  copy.ahead = copy.ops.empty() ? 0 : kBatches - 1;
  for (const Bound& b : copy.ops) {
    if (ops[b.op].kind != OpKind::copy || run_.program.copies[ops[b.op].what].kind != CopyKind::input)
      copy.ahead = 0;
  }
}

Worker::~Worker() = default;

bool Worker::needs_thread(Lane which) const {
  if (which == Lane::compute) return true;
  return run_.execution.backend->asynchronous ? lane(which).exchanges : !lane(which).ops.empty();
}

void Worker::run(Lane which) {
  if (which == Lane::compute) join_groups();
  if (queues_ && which == Lane::compute)
    queues_->run();
  else
    run_lane(which);
  if (which != Lane::compute || !run_.keep.calls) return;
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

std::vector<float> Worker::state() const {
  return read(state_memory(), run_.network.parameters() * run_.execution.job.optimizer->state);
}

std::vector<float> Worker::values(TensorId t) const {
  return read(tensor(t), run_.network.tensors()[t].elements);
}

float* Worker::tensor(TensorId t, int64_t variant) const {
  const Tensor& x = run_.network.tensors()[t];
  switch (x.kind) {
    case TensorKind::input:
    case TensorKind::label:
      return inputs_ + variant * run_.network.input_elements() + x.offset;
    case TensorKind::parameter:
      return parameters_ + x.offset;
    case TensorKind::parameter_gradient:
      return gradients_ + x.offset;
    default:
      return arena_ + x.offset;
  }
}

void Worker::open() {
  const exec::Network& n = run_.network;
  device_ = run_.execution.backend->open({run_.device_index(instance_), run_.execution.job.precision,
                                          run_.execution.threads, true, run_.execution.route});
  const bool loads = run_.execution.data != nullptr;
  variants_ = loads ? kBatches : 1;
  inputs_ = device_->allocate(variants_ * n.input_elements());
  arena_ = device_->allocate(n.arena());
  parameters_ = device_->allocate(n.parameters() * (1 + run_.execution.job.optimizer->state));
  gradients_ = device_->allocate(n.parameters());
  if (run_.micro_batches > 1) sums_ = device_->allocate(n.parameters());
  int64_t most = 0, narrowed = 0;
  for (const Op& op : role().ops) {
    narrowed = std::max(narrowed, narrowed_words(run_.program, op) * run_.workers);
    if (op.kind == OpKind::collective && op.payload == Payload::activations)
      most = std::max(most, op.bytes.n / 4);
  }
  outputs_ = device_->allocate(most);
  narrowed_ = device_->allocate(narrowed);
  device_->upload(parameters_, run_.start.data(), n.parameters());
  device_->upload(state_memory(), run_.start_state.data(), static_cast<int64_t>(run_.start_state.size()));
  const Checkpoint* saved = run_.execution.start;
  const float* buffer = saved != nullptr ? saved->buffers.data() : nullptr;
  for (const Tensor& t : n.tensors()) {
    if (t.kind != TensorKind::buffer) continue;
    const std::vector<float> values(static_cast<std::size_t>(t.elements), t.initial);
    device_->upload(arena_ + t.offset, buffer != nullptr ? buffer : values.data(), t.elements);
    if (buffer != nullptr) buffer += t.elements;
  }
  const auto layers = static_cast<uint32_t>(n.graph().layers().size());
  flat_.assign(layers, {n.parameters(), 0});
  for (const LearnedTensor& l : n.learned()) {
    const Tensor& t = n.tensors()[l.parameter];
    flat_[l.layer].first = std::min(flat_[l.layer].first, t.offset);
    flat_[l.layer].second = std::max(flat_[l.layer].second, t.offset + t.elements);
  }
  for (uint32_t i = 0; i < layers; ++i) {
    prepare(n.forward(i), forward_);
    prepare(n.backward(i), backward_);
  }
  losses_.reserve(static_cast<std::size_t>(run_.expected));
  std::vector<float> batch(static_cast<std::size_t>(n.input_elements()));
  for (int64_t v = 0; v < variants_; ++v) {
    fill_batch(v, batch.data());
    device_->upload(inputs_ + v * n.input_elements(), batch.data(), n.input_elements());
  }
  if (run_.execution.backend->asynchronous) {
    queues_ = std::make_unique<Queues>(*this);
    const bool staged = run_.store && !run_.store->on_devices();
    if (staged) host_gradients_ = device_->allocate_host(n.parameters());
    if (staged) host_parameters_ = device_->allocate_host(n.parameters());
  }
  bind();
}

void Worker::join_groups() {
  for (std::size_t c = 0; c < run_.library.size(); ++c) {
    const Run::Member m = run_.member(run_.program.collectives[c], instance_);
    if (run_.library_made(static_cast<uint32_t>(c))) run_.library[c][m.group]->join(m.rank, *device_);
  }
}

void Worker::prepare(const std::vector<Call>& calls, std::vector<std::vector<Launch>>& to) {
  to.emplace_back();
  for (const Call& c : calls) {
    Launch l;
    l.prepared = device_->prepare(c);
    const bool reads_input = std::any_of(c.operands.begin(), c.operands.end(), [&](TensorId t) {
      const TensorKind k = run_.network.tensors()[t].kind;
      return k == TensorKind::input || k == TensorKind::label;
    });
    for (int64_t v = 0; v < (reads_input ? variants_ : 1); ++v) {
      l.operands.emplace_back();
      for (const TensorId t : c.operands) l.operands.back().push_back(tensor(t, v));
    }
    if (run_.keep.calls) {
      l.time = calls_.size();
      calls_.push_back({c, {}, 0});
      calls_.back().seconds.reserve(static_cast<std::size_t>(run_.expected));
    }
    to.back().push_back(std::move(l));
  }
}

void Worker::bind() {
  for (LaneState& lane : lanes_) {
    lane.executed.reserve(lane.ops.size() * static_cast<std::size_t>(run_.expected));
    for (Bound& b : lane.ops) b.act = action(b.op);
  }
}

void Worker::wait(const Bound& b, int32_t iteration) {
  for (const Dependency& d : b.deps) {
    const int32_t of = iteration - d.lag;
    if (of < 0 || (of + 1) % d.every != 0) continue;  // it does not exist (semantics.md 1.3, 1.4)
    const Counter& passed = lane(d.lane).passed;
    const uint32_t target = static_cast<uint32_t>(of) * d.lane_ops + d.position + 1;
    if (!queues_ && static_cast<int32_t>(passed.value() - target) >= 0) continue;
    passed.wait(target, run_.abort, run_.spins);
    if (queues_) queues_->wait(d.op, of);
  }
}

/// A failure says which op of which iteration failed.
int64_t Worker::act(const Bound& b, int32_t iteration) {
  try {
    return b.act(iteration);
  } catch (const std::exception& error) {
    throw DeviceError(fmt::format("\"{}\" of iteration {}: {}", run_.program.labels[role().ops[b.op].label],
                                  iteration, error.what()));
  }
}

void Worker::run_lane(Lane which) {
  LaneState& lane = lanes_[static_cast<std::size_t>(which)];
  const bool compute = which == Lane::compute;
  uint32_t passed = 0;
  const uint32_t group = run_.counted_in(instance_);
  const auto goes_on = [&](int32_t i) {
    return lane.ahead == 0 ? run_.iterations->enter(group, i)
                           : run_.iterations->prefetch(group, i, lane.ahead, run_.abort, run_.spins);
  };
  for (int32_t i = 0; goes_on(i); ++i) {
    for (const Bound& b : lane.ops) {
      if ((i + 1) % role().ops[b.op].every == 0) {
        wait(b, i);
        run_.abort.check();
        const int64_t start = now_ns();
        const int64_t began = act(b, i);
        lane.executed.push_back({static_cast<uint32_t>(i), b.op, std::max(start, began), now_ns(), start});
      }
      lane.passed.set(++passed);
    }
    if (!compute || instance_ != 0) continue;
    if (run_.execution.progress && (i + 1) % run_.micro_batches == 0)
      run_.execution.progress(i / run_.micro_batches);
    if (run_.execution.stop != nullptr && run_.execution.stop->load()) run_.iterations->stop();
  }
  for (uint32_t s = 0; lane.pushes && s < run_.shards; ++s) {
    if (run_.links && run_.links->apart(instance_, s))
      run_.links->leave(instance_, s);
    else
      run_.store->leave(instance_, s);
  }
}

}  // namespace tandem::exec
