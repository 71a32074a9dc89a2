// SPDX-License-Identifier: Apache-2.0
// What each op of a worker does, bound once before the run.
#include <algorithm>
#include <bit>

#include "base/random.h"
#include "exec/run/memory.h"
#include "exec/run/worker.h"

namespace tandem::exec {

Worker::Act Worker::action(uint32_t index) {
  const Op& op = role().ops[index];
  switch (op.kind) {
    case OpKind::compute:
      return compute(index);
    case OpKind::copy:
      return input(op);
    case OpKind::collective:
      return collective(index);
    case OpKind::send:
      return send(index);
    case OpKind::recv:
      return receive(op);
    default:
      throw InputError("workers neither apply nor gate");
  }
}

Worker::Act Worker::send(uint32_t index) {
  const Op& op = role().ops[index];
  for (uint32_t s = 0; s < run_.shards(); ++s) bytes_[index] += 4 * run_.slice(op.key, instance_, s).elements;
  return [this, key = op.key, lane = op.lane](int32_t) {
    for (uint32_t s = 0; s < run_.shards(); ++s) {
      const Slice slice = run_.slice(key, instance_, s);
      float *gradient = sent_ + slice.first, *reply = replies_ + slice.first;
      driver_->to_host(gradient, gradients_ + slice.first, slice.elements, lane);
      if (run_.apart(instance_, s)) {
        run_.links()->push(instance_, s, key, gradient, reply);
        continue;
      }
      run_.store()->push(s, key, instance_, slice, gradient, reply, [this, key] { replied_[key].add(); });
    }
    device_->synchronize(lane);
    pushed_[key].add();
    return int64_t{0};
  };
}

Worker::Act Worker::receive(const Op& op) {
  uint32_t near = 0;  // shards
  for (uint32_t s = 0; s < run_.shards(); ++s) near += run_.apart(instance_, s) ? 0 : 1;
  return [this, key = op.key, lane = op.lane, near](int32_t iteration) {
    const auto rounds = static_cast<uint32_t>(iteration) + 1;
    pushed_[key].wait(rounds, run_.abort(), run_.spins());
    const int64_t began = now_ns();
    replied_[key].wait_awake(rounds * near, run_.abort(), run_.spins());
    for (uint32_t s = 0; s < run_.shards(); ++s) {
      if (run_.apart(instance_, s)) run_.links()->await(instance_, s, key);
      const Slice slice = run_.slice(key, instance_, s);
      driver_->to_device(parameters_ + slice.first, replies_ + slice.first, slice.elements, lane);
    }
    device_->synchronize(lane);
    return began;
  };
}

/// One step of the optimiser on a part of the parameters.
Launch Worker::update(const Op& op, const Slice& part) {
  Call call;
  call.function = Function::update;
  call.pass = Pass::update;
  call.kernels = run_.program().tasks[op.what].kernels;
  const auto rule = static_cast<int64_t>(run_.execution().job.optimizer - optimizers().data());
  call.shape = {part.elements, run_.execution().integer_gradients ? 0 : rule};
  Launch l;
  l.prepared = device_->prepare(call);
  l.time = driver_->timed(call);
  l.operands = {{parameters_ + part.first, gradients_ + part.first}};
  for (int64_t k = 0; k < run_.execution().job.optimizer->state; ++k)
    l.operands[0].push_back(state_memory() + k * run_.execution_graph().parameters() + part.first);
  return l;
}

Worker::Act Worker::compute(uint32_t index) {
  const Op& op = role().ops[index];
  const bool shared = op.payload == Payload::shard;
  if (op.payload != Payload::parameters && !shared) return layers(index);
  const Bucket whole = run_.program().buckets[op.key];
  const Slice part = shared ? run_.share(op.key, instance_) : Slice{whole.first, whole.elements};
  if (part.elements == 0) return [](int32_t) { return int64_t{0}; };
  // An update in front of the next iteration's forward: the first has nothing to apply yet.
  int32_t lag = 0;
  for (const Dep& d : op.deps) lag = std::max<int32_t>(lag, d.lag);
  driver_->needs_state(lag);
  return [this, list = std::vector<Launch>{update(op, part)}, lag](int32_t iteration) {
    if (iteration < lag) return int64_t{0};
    IterationState s = run_.state(instance_, iteration - lag);
    s.slot = static_cast<uint32_t>(lag);
    driver_->launch(list, 0, s);
    return int64_t{0};
  };
}

Worker::Act Worker::layers(uint32_t index) {
  const auto& ops = role().ops;
  const Task& task = run_.program().tasks[ops[index].what];
  const bool forward = task.pass == Pass::forward;
  const bool loads = run_.execution().data != nullptr;
  const bool adds_up = run_.micro_batches() > 1 && !run_.sums_shares();
  const uint32_t first = task.layer, count = task.layers;
  const bool ends = forward && first + count == forward_.size();
  std::vector<float*> losses;
  for (const TensorId t : run_.execution_graph().losses()) losses.push_back(tensor(t));
  int64_t lowest = run_.execution_graph().parameters(), highest = 0;  // of the flat vector
  for (uint32_t layer = first; layer < first + count; ++layer) {
    lowest = std::min(lowest, flat_[layer].first);
    highest = std::max(highest, flat_[layer].second);
  }
  return [=, this](int32_t iteration) {
    const IterationState s = run_.state(instance_, iteration);
    const auto variant = static_cast<std::size_t>(loads ? iteration % kInputBatches : 0);
    for (uint32_t k = 0; k < count; ++k) {
      const uint32_t layer = forward ? first + k : first + count - 1 - k;
      driver_->launch(forward ? forward_[layer] : backward_[layer], variant, s);
    }
    if (ends) driver_->take_losses(losses);
    if (forward) return int64_t{0};
    if (lowest < highest)
      device_->unscale(gradients_ + lowest, highest - lowest, run_.store() != nullptr, Lane::compute);
    if (run_.execution().integer_gradients) integers(first, count, iteration);
    for (uint32_t layer = first; adds_up && layer < first + count; ++layer)
      add_up(flat_[layer].first, flat_[layer].second, iteration, Lane::compute);
    return int64_t{0};
  };
}

/// Gradients [begin, end) of a micro-batch, to those before it in the step; the last one finds the sum in
/// their place.
void Worker::add_up(int64_t begin, int64_t end, int32_t iteration, Lane lane) {
  if (begin >= end) return;
  const int32_t micro = iteration % run_.micro_batches();
  if (micro == 0)
    device_->copy(sums_ + begin, gradients_ + begin, end - begin, lane);
  else if (micro + 1 < run_.micro_batches())
    device_->accumulate(sums_ + begin, gradients_ + begin, end - begin, lane);
  else
    device_->accumulate(gradients_ + begin, sums_ + begin, end - begin, lane);
}

/// -8 .. 7, so that sums of many stay exact in single precision.
void Worker::integers(uint32_t first_layer, uint32_t layers, int32_t iteration) {
  for (uint32_t layer = first_layer; layer < first_layer + layers; ++layer) {
    const auto [begin, end] = flat_[layer];
    if (begin >= end) continue;
    float* to = driver_->staging(LaneDriver::Staging::integers, iteration, gradients_,
                                 run_.execution_graph().parameters());
    for (int64_t i = begin; i < end; ++i)
      to[i] = static_cast<float>(integer_gradient(instance_, static_cast<uint32_t>(iteration), i));
    driver_->to_device(gradients_ + begin, to + begin, end - begin, Lane::compute);
  }
}

/// What a collective works on in the device's memory.
struct Worker::Buffer {
  float* at = nullptr;
  int64_t elements = 0;
};

Worker::Buffer Worker::buffer(const Op& op) const {
  if (op.payload == Payload::state)
    return {parameters_, run_.execution_graph().parameters() * (1 + run_.execution().job.optimizer->state)};
  if (op.payload != Payload::gradients && op.payload != Payload::parameters)
    return {outputs_, op.bytes.n / 4};
  const Bucket& bucket = run_.program().buckets[op.key];
  return {(op.payload == Payload::gradients ? gradients_ : parameters_) + bucket.first, bucket.elements};
}

Worker::Act Worker::collective(uint32_t index) {
  const Op& op = role().ops[index];
  const Collective& c = run_.program().collectives[op.what];
  const Run::Member m = run_.member(c, instance_);
  GroupCollective* group = &run_.group(op.what, m.group);
  Buffer whole = buffer(op);
  const int64_t each = narrowed_words(run_.program(), op);
  if (each > 0) whole = {narrowed_, each * m.ranks};
  float* const at = whole.at;
  const int64_t n = whole.elements;
  bytes_[index] = 4 * n;
  const bool averages =
      c.kind == CollKind::all_reduce && (op.payload == Payload::parameters || op.payload == Payload::state);
  const float share = 1 / static_cast<float>(m.ranks);
  DeviceGroup* library = run_.library(op.what, m.group);
  if (library != nullptr)
    asks_.emplace_back(
        [=, this, lane = op.lane] { estimates_[index] = library->estimate(m.rank, *device_, at, n, lane); });
  const bool over_links = run_.has_transport() && library == nullptr;  // which begin and end in host memory
  if (over_links) driver_->reserve_collective(op.lane, n);
  const bool scatters = c.kind == CollKind::reduce_scatter && op.payload == Payload::gradients;
  const Slice sum = scatters && run_.sums_shares() ? run_.share(op.key, instance_) : Slice{};
  return [=, this, lane = op.lane, key = op.key](int32_t iteration) {
    int64_t began = 0;
    if (each > 0) narrow_share(key, at, each, lane);
    if (library != nullptr) {
      library->run(m.rank, *device_, at, n, lane);
    } else {
      float* host = over_links ? driver_->collective_memory(lane, at) : at;
      driver_->to_host(host, at, n, lane);
      began = group->run(m.rank, host, n, driver_->peer_copies(), lane);
      driver_->to_device(at, host, n, lane);
    }
    if (averages) device_->scale(at, share, n, lane);
    if (each > 0) upcast_shards(key, at, each, lane);
    add_up(sum.first, sum.first + sum.elements, iteration, lane);
    if (over_links) device_->synchronize(lane);
    return began;
  };
}

/// This worker's share of the parameters, at its place among all shares.
void Worker::narrow_share(uint32_t key, float* words, int64_t each, Lane lane) {
  const Slice own = run_.share(key, instance_);
  if (own.elements > 0)
    device_->narrow(words + instance_ * each, parameters_ + own.first, own.elements, lane);
}

/// Those of the others; its own it keeps in 4 bytes, as the optimiser left it.
void Worker::upcast_shards(uint32_t key, const float* words, int64_t each, Lane lane) {
  for (uint32_t i = 0; i < run_.workers(); ++i) {
    const Slice other = run_.share(key, i);
    if (i != instance_ && other.elements > 0)
      device_->upcast(parameters_ + other.first, words + i * each, other.elements, lane);
  }
}

Worker::Act Worker::input(const Op& op) {
  if (run_.program().copies[op.what].kind != CopyKind::input)
    return [](int32_t) { return int64_t{0}; };  // gradients on their way: send() copies them itself
  return [this, lane = op.lane](int32_t iteration) {
    const int64_t n = run_.execution_graph().input_elements();
    float* to = inputs_ + iteration % kInputBatches * n;
    float* host = driver_->staging(LaneDriver::Staging::input, iteration, to, n);
    fill_batch(run_.first_iteration() + iteration, host);
    driver_->to_device(to, host, n, lane);
    return int64_t{0};
  };
}

/// Batch number `batch` of this worker: samples of the data set, or numbers drawn by counter.
void Worker::fill_batch(int64_t batch, float* inputs) const {
  const ExecutionGraph& n = run_.execution_graph();
  const Dataset* data = run_.execution().data;
  if (data != nullptr) {
    const auto samples =
        batch_samples(*data, run_.execution().seed, run_.workers(), instance_, n.batch(), batch);
    const int64_t size = elements(data->shape);
    float* to = inputs + n.tensors()[n.inputs()[0]].offset;
    auto* labels = reinterpret_cast<int32_t*>(inputs + n.tensors()[n.labels()[0]].offset);
    for (std::size_t i = 0; i < samples.size(); ++i) {
      std::copy_n(data->values.data() + samples[i] * size, size, to + static_cast<int64_t>(i) * size);
      labels[i] = data->labels[static_cast<std::size_t>(samples[i])];
    }
    return;
  }
  for (const auto* list : {&n.inputs(), &n.labels()}) {
    for (const TensorId t : *list) {
      const Tensor& x = n.tensors()[t];
      const int64_t range = n.values(t);
      for (int64_t i = 0; i < x.elements; ++i) {
        const uint64_t bits = draw_bits(run_.execution().seed ^ 0xda7aULL, instance_,
                                        static_cast<uint64_t>(batch), t, static_cast<uint64_t>(i));
        inputs[x.offset + i] =
            x.integer ? std::bit_cast<float>(static_cast<int32_t>(bits % static_cast<uint64_t>(range)))
                      : static_cast<float>(2 * to_unit(bits) - 1);
      }
    }
  }
}

}  // namespace tandem::exec
