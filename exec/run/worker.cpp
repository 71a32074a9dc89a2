// SPDX-License-Identifier: Apache-2.0
#include "exec/run/worker.h"

#include <algorithm>

#include "exec/run/memory.h"
#include "exec/run/stream_driver.h"

namespace tandem::exec {

Worker::Worker(Run& run, uint32_t instance)
    : run_(run),
      instance_(instance),
      lanes_(run),
      pushed_(run.program().buckets.size()),
      replied_(pushed_.size()),
      estimates_(role().ops.size()),
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

std::vector<float> Worker::state() const {
  return read(state_memory(), run_.execution_graph().parameters() * run_.execution().job.optimizer->state);
}

std::vector<float> Worker::values(TensorId t) const {
  return read(tensor(t), run_.execution_graph().tensors()[t].elements);
}

float* Worker::tensor(TensorId t, int64_t variant) const {
  const Tensor& x = run_.execution_graph().tensors()[t];
  switch (x.kind) {
    case TensorKind::input:
    case TensorKind::label:
      return inputs_ + variant * run_.execution_graph().input_elements() + x.offset;
    case TensorKind::parameter:
      return parameters_ + x.offset;
    case TensorKind::parameter_gradient:
      return gradients_ + x.offset;
    default:
      return arena_ + x.offset;
  }
}

void Worker::open() {
  device_ = run_.execution().backend->open({run_.device_index(instance_), run_.execution().job.precision,
                                            run_.execution().threads, true, run_.execution().route});
  allocate();
  set_start_values();
  driver_ = make_lane_driver({run_, instance_, lanes_, *device_});
  find_flat_ranges();
  for (uint32_t i = 0; i < flat_.size(); ++i) {
    prepare(run_.execution_graph().forward(i), forward_);
    prepare(run_.execution_graph().backward(i), backward_);
  }
  set_first_batches();
  meet_store();
  for (int l = 0; l < kLanes; ++l) {
    for (LaneOp& op : lanes_[static_cast<Lane>(l)].ops) op.act = action(op.op);
  }
}

void Worker::allocate() {
  const ExecutionGraph& n = run_.execution_graph();
  variants_ = run_.execution().data != nullptr ? kInputBatches : 1;
  inputs_ = device_->allocate(variants_ * n.input_elements());
  arena_ = device_->allocate(n.arena());
  parameters_ = device_->allocate(n.parameters() * (1 + run_.execution().job.optimizer->state));
  gradients_ = device_->allocate(n.parameters());
  if (run_.micro_batches() > 1) sums_ = device_->allocate(n.parameters());
  int64_t most = 0, narrowed = 0;
  for (const Op& op : role().ops) {
    narrowed = std::max(narrowed, narrowed_words(run_.program(), op) * run_.workers());
    if (op.kind == OpKind::collective && op.payload == Payload::activations)
      most = std::max(most, op.bytes.n / 4);
  }
  outputs_ = device_->allocate(most);
  narrowed_ = device_->allocate(narrowed);
}

void Worker::set_start_values() {
  const ExecutionGraph& n = run_.execution_graph();
  device_->upload(parameters_, run_.start().data(), n.parameters());
  device_->upload(state_memory(), run_.start_state().data(), static_cast<int64_t>(run_.start_state().size()));
  const Checkpoint* saved = run_.execution().start;
  const float* buffer = saved != nullptr ? saved->buffers.data() : nullptr;
  for (const Tensor& t : n.tensors()) {
    if (t.kind != TensorKind::buffer) continue;
    const std::vector<float> values(static_cast<std::size_t>(t.elements), t.initial);
    device_->upload(arena_ + t.offset, buffer != nullptr ? buffer : values.data(), t.elements);
    if (buffer != nullptr) buffer += t.elements;
  }
}

void Worker::set_first_batches() {
  const int64_t elements = run_.execution_graph().input_elements();
  std::vector<float> batch(static_cast<std::size_t>(elements));
  for (int64_t v = 0; v < variants_; ++v) {
    fill_batch(v, batch.data());
    device_->upload(inputs_ + v * elements, batch.data(), elements);
  }
}

void Worker::find_flat_ranges() {
  const ExecutionGraph& n = run_.execution_graph();
  flat_.assign(n.graph().layers().size(), {n.parameters(), 0});
  for (const LearnedTensor& l : n.learned()) {
    const Tensor& t = n.tensors()[l.parameter];
    flat_[l.layer].first = std::min(flat_[l.layer].first, t.offset);
    flat_[l.layer].second = std::max(flat_[l.layer].second, t.offset + t.elements);
  }
}

/// A store in host memory cannot reach into an asynchronous device's.
void Worker::meet_store() {
  sent_ = gradients_;
  replies_ = parameters_;
  if (!run_.store() || run_.store()->on_devices()) return;
  sent_ = driver_->host_memory(gradients_, run_.execution_graph().parameters());
  replies_ = driver_->host_memory(parameters_, run_.execution_graph().parameters());
}

void Worker::join_groups() {
  const auto& collectives = run_.program().collectives;
  for (uint32_t c = 0; c < collectives.size(); ++c) {
    const Run::Member m = run_.member(collectives[c], instance_);
    if (DeviceGroup* library = run_.library(c, m.group)) library->join(m.rank, *device_);
  }
}

void Worker::prepare(const std::vector<Call>& calls, std::vector<std::vector<Launch>>& to) {
  to.emplace_back();
  for (const Call& c : calls) to.back().push_back(prepare(c));
}

Launch Worker::prepare(const Call& call) {
  Launch l;
  l.prepared = device_->prepare(call);
  l.time = driver_->timed(call);
  const bool reads_input = std::any_of(call.operands.begin(), call.operands.end(), [&](TensorId t) {
    const TensorKind k = run_.execution_graph().tensors()[t].kind;
    return k == TensorKind::input || k == TensorKind::label;
  });
  for (int64_t v = 0; v < (reads_input ? variants_ : 1); ++v) {
    l.operands.emplace_back();
    for (const TensorId t : call.operands) l.operands.back().push_back(tensor(t, v));
  }
  return l;
}

}  // namespace tandem::exec
