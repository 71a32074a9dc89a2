// SPDX-License-Identifier: Apache-2.0
// What each op of a worker does, bound once before the run.
#include <sys/resource.h>

#include <algorithm>
#include <bit>

#include "base/random.h"
#include "exec/run/memory.h"
#include "exec/run/queues.h"
#include "exec/run/worker.h"

namespace tandem::exec {

namespace {

/// Involuntary context switches of the calling thread so far: a sample during which one happened measures the
/// neighbours.
int64_t switches() {
  rusage use{};
  getrusage(RUSAGE_THREAD, &use);
  return use.ru_nivcsw;
}

}  // namespace

std::function<int64_t(int32_t)> Worker::action(uint32_t index) {
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

/// Where the store works in host memory, what an asynchronous device holds goes through memory of its own
/// there.
std::function<int64_t(int32_t)> Worker::send(uint32_t index) {
  const Op& op = role().ops[index];
  for (uint32_t s = 0; s < run_.shards; ++s) bytes_[index] += 4 * run_.slice(op.key, instance_, s).elements;
  return [this, key = op.key, lane = op.lane, staged = queues_ && !run_.store->on_devices()](int32_t) {
    for (uint32_t s = 0; s < run_.shards; ++s) {
      const Slice slice = run_.slice(key, instance_, s);
      float *gradient = gradients_ + slice.first, *reply = parameters_ + slice.first;
      if (staged) {
        device_->save(host_gradients_ + slice.first, gradient, slice.elements, lane);
        device_->synchronize(lane);
        gradient = host_gradients_ + slice.first;
        reply = host_parameters_ + slice.first;
      }
      if (run_.links && run_.links->apart(instance_, s)) {
        run_.links->push(instance_, s, key, gradient, reply);
        continue;
      }
      run_.store->push(s, key, instance_, slice, gradient, reply, [this, key] { replied_[key].add(); });
    }
    if (queues_) device_->synchronize(lane);
    pushed_[key].add();
    return int64_t{0};
  };
}

std::function<int64_t(int32_t)> Worker::receive(const Op& op) {
  uint32_t near = 0;  // shards
  for (uint32_t s = 0; s < run_.shards; ++s) near += run_.links && run_.links->apart(instance_, s) ? 0 : 1;
  return [this, key = op.key, lane = op.lane, near,
          staged = queues_ && !run_.store->on_devices()](int32_t iteration) {
    const auto rounds = static_cast<uint32_t>(iteration) + 1;
    pushed_[key].wait(rounds, run_.abort, run_.spins);
    const int64_t began = now_ns();
    replied_[key].wait_awake(rounds * near, run_.abort, run_.spins);
    for (uint32_t s = 0; s < run_.shards; ++s) {
      if (run_.links && run_.links->apart(instance_, s)) run_.links->await(instance_, s, key);
      if (!staged) continue;
      const Slice slice = run_.slice(key, instance_, s);
      device_->load(parameters_ + slice.first, host_parameters_ + slice.first, slice.elements, lane);
    }
    if (queues_) device_->synchronize(lane);
    return began;
  };
}

std::function<int64_t(int32_t)> Worker::compute(uint32_t index) {
  const Op& op = role().ops[index];
  const bool shared = op.payload == Payload::shard;
  if (op.payload != Payload::parameters && !shared) return layers(index);
  const Bucket whole = run_.program.buckets[op.key];
  const Slice part = shared ? run_.share(op.key, instance_) : Slice{whole.first, whole.elements};
  if (part.elements == 0) return [](int32_t) { return int64_t{0}; };
  Call update;
  update.function = Function::update;
  update.pass = Pass::update;
  update.kernels = run_.program.tasks[op.what].kernels;
  const auto rule = static_cast<int64_t>(run_.execution.job.optimizer - optimizers().data());
  update.shape = {part.elements, run_.execution.integer_gradients ? 0 : rule};
  auto list = std::make_shared<std::vector<Launch>>(1);
  Launch& l = list->front();
  l.prepared = device_->prepare(update);
  l.operands = {{parameters_ + part.first, gradients_ + part.first}};
  for (int64_t k = 0; k < run_.execution.job.optimizer->state; ++k)
    l.operands[0].push_back(state_memory() + k * run_.network.parameters() + part.first);
  if (run_.keep.calls) {
    l.time = calls_.size();
    calls_.push_back({update, {}, 0});
    calls_.back().seconds.reserve(static_cast<std::size_t>(run_.expected));
  }
  // An update in front of the next iteration's forward: the first has nothing to apply yet.
  int32_t lag = 0;
  for (const Dep& d : op.deps) lag = std::max<int32_t>(lag, d.lag);
  if (queues_) queues_->needs_state(lag);
  return [this, list, lag](int32_t iteration) {
    if (iteration < lag) return int64_t{0};
    IterationState s = run_.state(instance_, iteration - lag);
    s.slot = static_cast<uint32_t>(lag);
    launch(*list, 0, s);
    return int64_t{0};
  };
}

std::function<int64_t(int32_t)> Worker::layers(uint32_t index) {
  const auto& ops = role().ops;
  const Task& task = run_.program.tasks[ops[index].what];
  const bool forward = task.pass == Pass::forward;
  const bool loads = run_.execution.data != nullptr;
  const bool adds_up = run_.micro_batches > 1 && !run_.sums_shares;
  const uint32_t first = task.layer, count = task.layers;
  const bool ends = forward && first + count == forward_.size();
  int64_t lowest = run_.network.parameters(), highest = 0;  // of the flat vector
  for (uint32_t layer = first; layer < first + count; ++layer) {
    lowest = std::min(lowest, flat_[layer].first);
    highest = std::max(highest, flat_[layer].second);
  }
  return [=, this](int32_t iteration) {
    const IterationState s = run_.state(instance_, iteration);
    const auto variant = static_cast<std::size_t>(loads ? iteration % kBatches : 0);
    for (uint32_t k = 0; k < count; ++k) {
      const uint32_t layer = forward ? first + k : first + count - 1 - k;
      launch(forward ? forward_[layer] : backward_[layer], variant, s);
    }
    if (ends && queues_) {
      float* to = losses_now_;
      for (const TensorId t : run_.network.losses()) device_->copy(to++, tensor(t), 1, Lane::compute);
    } else if (ends) {
      double loss = 0;
      for (const TensorId t : run_.network.losses()) {
        float value = 0;
        device_->download(&value, tensor(t), 1);
        loss += static_cast<double>(value);
      }
      losses_.push_back(loss);
    }
    if (forward) return int64_t{0};
    if (lowest < highest)
      device_->unscale(gradients_ + lowest, highest - lowest, run_.store != nullptr, Lane::compute);
    if (run_.execution.integer_gradients) integers(first, count, iteration);
    for (uint32_t layer = first; adds_up && layer < first + count; ++layer)
      add_up(flat_[layer].first, flat_[layer].second, iteration, Lane::compute);
    return int64_t{0};
  };
}

/// Gradients [begin, end) of a micro-batch, to those before it in the step; the last one finds the sum in
/// their place.
void Worker::add_up(int64_t begin, int64_t end, int32_t iteration, Lane lane) {
  if (begin >= end) return;
  const int32_t micro = iteration % run_.micro_batches;
  if (micro == 0)
    device_->copy(sums_ + begin, gradients_ + begin, end - begin, lane);
  else if (micro + 1 < run_.micro_batches)
    device_->accumulate(sums_ + begin, gradients_ + begin, end - begin, lane);
  else
    device_->accumulate(gradients_ + begin, sums_ + begin, end - begin, lane);
}

void Worker::launch(const std::vector<Launch>& list, std::size_t variant, const IterationState& state) {
  if (queues_ || !run_.keep.calls) {
    for (const Launch& l : list) {
      const auto& operands = l.operands[l.operands.size() > 1 ? variant : 0];
      if (queues_)
        queues_->launch(l.time, l.prepared, operands, state);
      else
        device_->launch(l.prepared, operands, state, Lane::compute);
    }
    return;
  }
  const int64_t before = switches();
  for (const Launch& l : list) {
    const auto& operands = l.operands[l.operands.size() > 1 ? variant : 0];
    const int64_t start = now_ns();
    device_->launch(l.prepared, operands, state, Lane::compute);
    if (state.iteration - run_.first_iteration >= run_.warmup)
      calls_[l.time].seconds.push_back(static_cast<double>(now_ns() - start) * 1e-9);
  }
  if (switches() == before) return;
  for (const Launch& l : list) {
    if (calls_[l.time].seconds.empty()) continue;
    calls_[l.time].seconds.pop_back();
    ++calls_[l.time].dropped;
  }
}

/// -8 .. 7, so that sums of many stay exact in single precision.
void Worker::integers(uint32_t first_layer, uint32_t layers, int32_t iteration) {
  for (uint32_t layer = first_layer; layer < first_layer + layers; ++layer) {
    const auto [begin, end] = flat_[layer];
    if (begin >= end) continue;
    float* to = gradients_;
    if (queues_) to = queues_->staging(Queues::Staging::integers, iteration, run_.network.parameters());
    for (int64_t i = begin; i < end; ++i)
      to[i] = static_cast<float>(integer_gradient(instance_, static_cast<uint32_t>(iteration), i));
    if (queues_) device_->load(gradients_ + begin, to + begin, end - begin, Lane::compute);
  }
}

std::function<int64_t(int32_t)> Worker::collective(uint32_t index) {
  const Op& op = role().ops[index];
  const Collective& c = run_.program.collectives[op.what];
  const Run::Member m = run_.member(c, instance_);
  GroupCollective* group = run_.groups[op.what][m.group].get();
  float* buffer = outputs_;
  int64_t elements = op.bytes.n / 4;
  const bool part = op.payload == Payload::gradients || op.payload == Payload::parameters;
  if (op.payload == Payload::gradients) buffer = gradients_ + run_.program.buckets[op.key].first;
  if (op.payload == Payload::parameters) buffer = parameters_ + run_.program.buckets[op.key].first;
  if (part) elements = run_.program.buckets[op.key].elements;
  if (op.payload == Payload::state) {
    buffer = parameters_;
    elements = run_.network.parameters() * (1 + run_.execution.job.optimizer->state);
  }
  const int64_t each = narrowed_words(run_.program, op);
  if (each > 0) {
    elements = each * m.ranks;
    buffer = narrowed_;
  }
  bytes_[index] = 4 * elements;
  const bool averages =
      c.kind == CollKind::all_reduce && (op.payload == Payload::parameters || op.payload == Payload::state);
  const float share = 1 / static_cast<float>(m.ranks);
  DeviceGroup* library = run_.library_made(op.what) ? run_.library[op.what][m.group].get() : nullptr;
  if (library != nullptr)
    asks_.emplace_back([=, this, lane = op.lane] {
      estimates_[index] = library->estimate(m.rank, *device_, buffer, elements, lane);
    });
  const bool staged = queues_ && run_.wire && library == nullptr;
  if (LaneState& l = lane(op.lane); staged && l.staged_elements < elements) {
    l.staged = device_->allocate_host(elements);
    l.staged_elements = elements;
  }
  const bool scatters = c.kind == CollKind::reduce_scatter && op.payload == Payload::gradients;
  const Slice sum = scatters && run_.sums_shares ? run_.share(op.key, instance_) : Slice{};
  return [=, this, lane = op.lane, key = op.key](int32_t iteration) {
    int64_t began = 0;
    if (each > 0) narrow_share(key, buffer, each, lane);
    if (library != nullptr)
      library->run(m.rank, *device_, buffer, elements, lane);
    else if (staged)
      began = over_links(*group, m.rank, buffer, elements, lane);
    else
      began = group->run(m.rank, buffer, elements, queues_ ? device_.get() : nullptr, lane);
    if (averages) device_->scale(buffer, share, elements, lane);
    if (each > 0) widen_shares(key, buffer, each, lane);
    add_up(sum.first, sum.first + sum.elements, iteration, lane);
    if (staged) device_->synchronize(lane);
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
void Worker::widen_shares(uint32_t key, const float* words, int64_t each, Lane lane) {
  for (uint32_t i = 0; i < run_.workers; ++i) {
    const Slice other = run_.share(key, i);
    if (i != instance_ && other.elements > 0)
      device_->widen(parameters_ + other.first, words + i * each, other.elements, lane);
  }
}

/// Links begin and end in host memory: what an asynchronous device holds is staged there.
int64_t Worker::over_links(GroupCollective& group, uint32_t rank, float* buffer, int64_t elements, Lane on) {
  float* host = lane(on).staged;
  device_->save(host, buffer, elements, on);
  device_->synchronize(on);
  const int64_t began = group.run(rank, host, elements);
  device_->load(buffer, host, elements, on);
  return began;
}

std::function<int64_t(int32_t)> Worker::input(const Op& op) {
  if (run_.program.copies[op.what].kind != CopyKind::input)
    return [](int32_t) { return int64_t{0}; };  // gradients on their way: send() copies them itself
  return [this, lane = op.lane](int32_t iteration) {
    const int64_t n = run_.network.input_elements();
    float* to = inputs_ + iteration % kBatches * n;
    float* host = queues_ ? queues_->staging(Queues::Staging::input, iteration, n) : to;
    fill_batch(run_.first_iteration + iteration, host);
    if (queues_) device_->load(to, host, n, lane);
    return int64_t{0};
  };
}

/// Batch number `batch` of this worker: samples of the data set, or numbers drawn by counter.
void Worker::fill_batch(int64_t batch, float* inputs) const {
  const exec::Network& n = run_.network;
  const Dataset* data = run_.execution.data;
  if (data != nullptr) {
    const auto samples = batch_samples(*data, run_.execution.seed, run_.workers, instance_, n.batch(), batch);
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
        const uint64_t bits = draw_bits(run_.execution.seed ^ 0xda7aULL, instance_,
                                        static_cast<uint64_t>(batch), t, static_cast<uint64_t>(i));
        inputs[x.offset + i] =
            x.integer ? std::bit_cast<float>(static_cast<int32_t>(bits % static_cast<uint64_t>(range)))
                      : static_cast<float>(2 * to_unit(bits) - 1);
      }
    }
  }
}

}  // namespace tandem::exec
