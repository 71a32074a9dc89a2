#include "exec/worker.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <bit>

#include "base/random.h"
#include "exec/queues.h"

namespace tandem {

namespace {

/// Batches in memory at once: one is loaded when the forward pass of two iterations before has begun
/// (Training::forward), whose backward pass still reads its own.
constexpr int64_t kBatches = 3;

/// Involuntary context switches of the calling thread so far: a sample during which one happened measures the
/// neighbours.
int64_t switches() {
  rusage use{};
  getrusage(RUSAGE_THREAD, &use);
  return use.ru_nivcsw;
}

}  // namespace

Worker::Worker(Run& run, uint32_t instance)
    : run_(run), instance_(instance), arrived_(run.program.parts.size()) {
  for (LaneState& lane : lanes_) run_.abort.watch(&lane.passed);
  for (Counter& p : arrived_) run_.abort.watch(&p);
  const auto& ops = role().ops;
  std::vector<uint32_t> position(ops.size());
  for (uint32_t i = 0; i < ops.size(); ++i) {
    auto& lane = lanes_[static_cast<std::size_t>(ops[i].lane)];
    position[i] = static_cast<uint32_t>(lane.ops.size());
    lane.ops.emplace_back();
    lane.ops.back().op = i;
    lane.pushes = lane.pushes || ops[i].kind == OpKind::send;
    lane.exchanges = lane.exchanges || ops[i].kind == OpKind::send || ops[i].kind == OpKind::recv;
  }
  for (uint32_t i = 0; i < ops.size(); ++i) {
    Bound& bound = lanes_[static_cast<std::size_t>(ops[i].lane)].ops[position[i]];
    for (const Dep& d : ops[i].deps) {
      if (ops[d.op].lane == ops[i].lane) continue;  // lanes are in order
      const auto& lane = lanes_[static_cast<std::size_t>(ops[d.op].lane)];
      bound.deps.push_back({ops[d.op].lane, position[d.op], static_cast<uint32_t>(lane.ops.size()), d.op,
                            d.lag, ops[d.op].every});
    }
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
  return read(state_memory(), run_.network.parameters() * run_.execution.optimizer->state);
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
  const Network& n = run_.network;
  device_ = run_.execution.backend->open({instance_, run_.execution.precision, run_.execution.threads, true});
  const bool loads = run_.execution.data != nullptr;
  variants_ = run_.micro_batches * (loads ? kBatches : 1);
  inputs_ = device_->allocate(variants_ * n.input_elements());
  arena_ = device_->allocate(n.arena());
  parameters_ = device_->allocate(n.parameters() * (1 + run_.execution.optimizer->state));
  gradients_ = device_->allocate(n.parameters());
  if (run_.micro_batches > 1) sums_ = device_->allocate(n.parameters());
  int64_t most = 0;
  for (const Op& op : role().ops) {
    if (op.kind == OpKind::collective && op.payload == Payload::activations)
      most = std::max(most, op.bytes.n / 4);
  }
  outputs_ = device_->allocate(most);
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
  losses_.reserve(static_cast<std::size_t>(run_.execution.iterations));
  std::vector<float> batch(static_cast<std::size_t>(n.input_elements()));
  for (int64_t v = 0; v < variants_; ++v) {
    fill_batch(v, batch.data());
    device_->upload(inputs_ + v * n.input_elements(), batch.data(), n.input_elements());
  }
  if (run_.execution.backend->asynchronous) {
    queues_ = std::make_unique<Queues>(*this);
    if (run_.store) host_gradients_ = device_->allocate_host(n.parameters());
    if (run_.store) host_parameters_ = device_->allocate_host(n.parameters());
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
      calls_.back().seconds.reserve(static_cast<std::size_t>(run_.execution.iterations * run_.micro_batches));
    }
    to.back().push_back(std::move(l));
  }
}

void Worker::bind() {
  for (LaneState& lane : lanes_) {
    lane.executed.reserve(lane.ops.size() * static_cast<std::size_t>(run_.execution.iterations));
    for (Bound& b : lane.ops) b.act = action(b.op);
  }
}

std::function<int64_t(int32_t)> Worker::action(uint32_t index) {
  const Op& op = role().ops[index];
  switch (op.kind) {
    case OpKind::compute:
      return compute(index);
    case OpKind::copy:
      return input(op);
    case OpKind::collective:
      return collective(op);
    case OpKind::send:
      return send(op);
    case OpKind::recv:
      return receive(op);
    default:
      throw InputError("workers neither apply nor gate");
  }
}

/// The store works in host memory: what an asynchronous device holds goes through memory of its own there.
std::function<int64_t(int32_t)> Worker::send(const Op& op) {
  return [this, key = op.key, lane = op.lane](int32_t) {
    for (uint32_t s = 0; s < run_.shards; ++s) {
      const Slice slice = run_.slice(key, instance_, s);
      float *gradient = gradients_ + slice.first, *reply = parameters_ + slice.first;
      if (queues_) {
        device_->save(host_gradients_ + slice.first, gradient, slice.elements, lane);
        device_->synchronize(lane);
        gradient = host_gradients_ + slice.first;
        reply = host_parameters_ + slice.first;
      }
      if (run_.links && run_.links->apart(instance_, s)) {
        run_.links->push(instance_, s, key, gradient, reply);
        continue;
      }
      run_.store->push(s, key, instance_, slice, gradient, reply);
      if (queues_ && !run_.gated) device_->load(parameters_ + slice.first, reply, slice.elements, lane);
    }
    if (queues_) device_->synchronize(lane);
    arrived_[key].add();
    return int64_t{0};
  };
}

std::function<int64_t(int32_t)> Worker::receive(const Op& op) {
  return [this, key = op.key, lane = op.lane](int32_t iteration) {
    arrived_[key].wait(static_cast<uint32_t>(iteration) + 1, run_.abort, run_.spins);
    const int64_t began = now_ns();
    for (uint32_t s = 0; s < run_.shards; ++s) {
      if (run_.links && run_.links->apart(instance_, s)) {
        run_.links->await(instance_, s, key);
        continue;
      }
      if (!run_.gated) continue;
      const Slice slice = run_.slice(key, instance_, s);
      float* reply = (queues_ ? host_parameters_ : parameters_) + slice.first;
      run_.store->pull(s, key, instance_, slice, reply);
      if (queues_) device_->load(parameters_ + slice.first, reply, slice.elements, lane);
    }
    if (queues_) device_->synchronize(lane);
    return began;
  };
}

std::function<int64_t(int32_t)> Worker::compute(uint32_t index) {
  const Op& op = role().ops[index];
  if (op.payload != Payload::parameters) return layers(index);
  const Part part = run_.program.parts[op.key];
  Call update;
  update.function = Function::update;
  update.pass = Pass::update;
  update.kernels = run_.program.tasks[op.what].kernels;
  const auto rule = static_cast<int64_t>(run_.execution.optimizer - optimizers().data());
  update.shape = {part.elements, run_.execution.integer_gradients ? 0 : rule};
  auto list = std::make_shared<std::vector<Launch>>(1);
  Launch& l = list->front();
  l.prepared = device_->prepare(update);
  l.operands = {{parameters_ + part.first, gradients_ + part.first}};
  for (int64_t k = 0; k < run_.execution.optimizer->state; ++k)
    l.operands[0].push_back(state_memory() + k * run_.network.parameters() + part.first);
  if (run_.keep.calls) {
    l.time = calls_.size();
    calls_.push_back({update, {}, 0});
    calls_.back().seconds.reserve(static_cast<std::size_t>(run_.execution.iterations));
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
  // The how-many-eth pass over these layers in the iteration is it, and is it the last?
  int64_t before = 0, after = 0;
  for (uint32_t i = 0; i < ops.size(); ++i) {
    const Task& other = run_.program.tasks[ops[i].kind == OpKind::compute ? ops[i].what : ops[index].what];
    if (i == index || ops[i].kind != OpKind::compute || ops[i].payload != Payload::none) continue;
    if (other.pass != task.pass || task.layer < other.layer || task.layer >= other.layer + other.layers)
      continue;
    (i < index ? before : after) += 1;
  }
  const bool loads = run_.execution.data != nullptr, last = after == 0;
  const uint32_t first = task.layer, count = task.layers;
  const bool ends = forward && first + count == forward_.size() && last;
  return [=, this](int32_t iteration) {
    const IterationState s = run_.state(instance_, iteration);
    const auto micro = static_cast<std::size_t>(std::min(before, run_.micro_batches - 1));
    const auto variant =
        static_cast<std::size_t>(loads ? iteration % kBatches * run_.micro_batches : 0) + micro;
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
    if (run_.execution.integer_gradients) integers(first, count, iteration, before == 0);
    if (run_.micro_batches == 1) return int64_t{0};
    for (uint32_t layer = first; layer < first + count; ++layer) {
      const auto [begin, end] = flat_[layer];
      if (begin >= end) continue;
      if (!last && before == 0) device_->copy(sums_ + begin, gradients_ + begin, end - begin, Lane::compute);
      if (!last && before > 0)
        device_->accumulate(sums_ + begin, gradients_ + begin, end - begin, Lane::compute);
      if (last) device_->accumulate(gradients_ + begin, sums_ + begin, end - begin, Lane::compute);
    }
    return int64_t{0};
  };
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
    if (state.iteration - run_.first_iteration >= run_.execution.warmup)
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
void Worker::integers(uint32_t first_layer, uint32_t layers, int32_t iteration, bool first) {
  for (uint32_t layer = first_layer; layer < first_layer + layers; ++layer) {
    const auto [begin, end] = flat_[layer];
    if (begin >= end) continue;
    float* to = gradients_;
    if (queues_) to = queues_->staging(Queues::Staging::integers, iteration, run_.network.parameters());
    // Micro-batches have the same ones: what a device may still be reading is not written again.
    for (int64_t i = begin; (first || !queues_) && i < end; ++i)
      to[i] = static_cast<float>(integer_gradient(instance_, static_cast<uint32_t>(iteration), i));
    if (queues_) device_->load(gradients_ + begin, to + begin, end - begin, Lane::compute);
  }
}

std::function<int64_t(int32_t)> Worker::collective(const Op& op) {
  const Collective& c = run_.program.collectives[op.what];
  const Run::Member m = run_.member(c, instance_);
  GroupCollective* group = run_.groups[op.what][m.group].get();
  float* buffer = outputs_;
  int64_t elements = op.bytes.n / 4;
  const bool part = op.payload == Payload::gradients || op.payload == Payload::parameters;
  if (op.payload == Payload::gradients) buffer = gradients_ + run_.program.parts[op.key].first;
  if (op.payload == Payload::parameters) buffer = parameters_ + run_.program.parts[op.key].first;
  if (part) elements = run_.program.parts[op.key].elements;
  if (op.payload == Payload::state) {
    buffer = parameters_;
    elements = run_.network.parameters() * (1 + run_.execution.optimizer->state);
  }
  const bool averages =
      c.kind == CollKind::all_reduce && (op.payload == Payload::parameters || op.payload == Payload::state);
  const float share = 1 / static_cast<float>(m.ranks);
  DeviceGroup* library = run_.library_made(op.what) ? run_.library[op.what][m.group].get() : nullptr;
  return [=, this, lane = op.lane](int64_t) {
    int64_t began = 0;
    if (library != nullptr)
      library->run(m.rank, *device_, buffer, elements, lane);
    else
      began = group->run(m.rank, buffer, elements, queues_ ? device_.get() : nullptr, lane);
    if (averages) device_->scale(buffer, share, elements, lane);
    return began;
  };
}

std::function<int64_t(int32_t)> Worker::input(const Op& op) {
  if (run_.program.copies[op.what].kind != CopyKind::input)
    return [](int32_t) { return int64_t{0}; };  // gradients on their way: send() copies them itself
  return [this, lane = op.lane](int32_t iteration) {
    const int64_t n = run_.network.input_elements();
    for (int64_t k = 0; k < run_.micro_batches; ++k) {
      const int64_t batch = (run_.first_iteration + iteration) * run_.micro_batches + k;
      float* to = inputs_ + (iteration % kBatches * run_.micro_batches + k) * n;
      float* host = to;
      if (queues_) host = k * n + queues_->staging(Queues::Staging::input, iteration, n * run_.micro_batches);
      fill_batch(batch, host);
      if (queues_) device_->load(to, host, n, lane);
    }
    return int64_t{0};
  };
}

/// Batch number `batch` of this worker: samples of the data set, or numbers drawn by counter.
void Worker::fill_batch(int64_t batch, float* inputs) const {
  const Network& n = run_.network;
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

void Worker::wait(const Bound& b, int32_t iteration, bool compute) {
  for (const Dependency& d : b.deps) {
    const int32_t of = iteration - d.lag;
    if (of < 0 || (of + 1) % d.every != 0) continue;  // it does not exist (semantics.md 1.3, 1.4)
    const Counter& passed = lane(d.lane).passed;
    const uint32_t target = static_cast<uint32_t>(of) * d.lane_ops + d.position + 1;
    if (!queues_ && static_cast<int32_t>(passed.value() - target) >= 0) continue;
    const int64_t start = compute ? now_ns() : 0;
    passed.wait(target, run_.abort, run_.spins);
    if (queues_) queues_->wait(d.op, of);
    if (compute && iteration >= run_.execution.warmup)
      waited_[static_cast<std::size_t>(d.lane)] += now_ns() - start;
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
  for (int32_t i = 0; run_.iterations.enter(i); ++i) {
    for (const Bound& b : lane.ops) {
      if ((i + 1) % role().ops[b.op].every == 0) {
        wait(b, i, compute);
        run_.abort.check();
        const int64_t start = now_ns();
        const int64_t began = act(b, i);
        lane.executed.push_back({static_cast<uint32_t>(i), b.op, std::max(start, began), now_ns()});
      }
      lane.passed.set(++passed);
    }
    if (!compute || instance_ != 0) continue;
    if (run_.execution.progress) run_.execution.progress(i);
    if (run_.execution.stop != nullptr && run_.execution.stop->load()) run_.iterations.stop();
  }
  for (uint32_t s = 0; lane.pushes && s < run_.shards; ++s) {
    if (run_.links && run_.links->apart(instance_, s))
      run_.links->leave(instance_, s);
    else
      run_.store->leave(instance_, s);
  }
}

}  // namespace tandem
