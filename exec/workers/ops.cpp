// SPDX-License-Identifier: Apache-2.0
// What each op of a worker does, bound once before the run.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

#include "exec/layout/memory.h"
#include "exec/workers/worker.h"

namespace tandem::exec {

Worker::Act Worker::action(uint32_t index) {
  const Op& op = role().ops[index];
  switch (op.kind) {
    case OpKind::compute:
      return compute(index);
    case OpKind::copy:
      return copy(index);
    case OpKind::collective:
      return with_norms(index, collective(index));
    case OpKind::send:
      return of_layers(op.payload) ? send_to_peer(index)
             : run_.own_models()   ? send_model(index)
             : asks(op)            ? ask(index)
                                   : send(index);
    case OpKind::recv:
      return of_layers(op.payload) ? receive_from_peer(index)
             : run_.own_models()   ? receive_model(index)
             : acknowledges(op)    ? receive_answers(op)
                                   : receive(op);
    default:
      throw InputError("workers neither apply nor gate");
  }
}

/// One step of the optimiser on a part of the parameters.
Call Worker::update_call(const Op& op, const Slice& part) const {
  Call call = run_.update_call(optimizer_state_, part);
  call.kernels = run_.program().tasks[op.what].kernels;
  return call;
}

Launch Worker::update(const Op& op, const Slice& part) {
  Call call = update_call(op, part);
  Launch l;
  l.operands = {{own_parameters(part.first), own_gradients(part.first)}};
  add_state(l.operands[0], state_memory(), part.first);
  renew_by(call, l.operands[0], part);
  l.prepared = device_->prepare(call);
  l.time = driver_->timed(call);
  return l;
}

Worker::Act Worker::compute(uint32_t index) {
  const Op& op = role().ops[index];
  if (op.lane == Lane::host && op.payload == Payload::gradients) return add_on_host(op);
  if (op.payload == Payload::gradients || op.payload == Payload::compressed) return compress(op);
  if (op.payload != Payload::parameters && op.payload != Payload::shard) return layers(index);
  const Slice part = updated(index);
  if (part.elements == 0) return [](int32_t) { return int64_t{0}; };
  if (op.lane == Lane::host) return update_on_host(op, part);
  if (run_.program().tasks[op.what].averaging.rule != Averaging::Rule::none) return average(op, part);
  if (run_.own_models()) return update_model(op, part);
  // An update in front of the next iteration's forward: the first has nothing to apply yet.
  int32_t lag = 0;
  for (const Dep& d : op.deps) lag = std::max<int32_t>(lag, d.lag);
  driver_->needs_state(lag);
  if (run_.program().delay > 0) return update_late(op, part, lag);
  const bool judges = judges_step(index);
  return [this, list = std::vector<Launch>{update(op, part)}, lag, judges](int32_t iteration) {
    if (iteration < lag) return int64_t{0};
    if (judges) device_->judge(gradients_, graph().parameters(), Lane::compute);
    IterationState s = run_.state(instance_, iteration - lag);
    s.slot = static_cast<uint32_t>(lag);
    driver_->launch(list, 0, s);
    return int64_t{0};
  };
}

/// What a task of a forward or backward pass is made of.
struct Worker::Work {
  uint32_t first = 0, count = 0;
  bool forward = true;
  bool again = false;           ///< neither forward nor backward: forward once more
  bool data = true;             ///< backward: the gradients of inputs
  std::vector<uint32_t> parts;  ///< [layer - first]: which of LayerLaunches::forward or data
  std::vector<bool> weights;    ///< [layer - first], backward: the gradients of parameters
  std::vector<Range> ranges;    ///< of the flat vector, where it leaves gradients
};

/// So many times have devices exchanged something in the middle of the layer's passes before the op.
uint32_t Worker::exchanges_before(uint32_t layer, uint32_t index) const {
  const auto& ops = role().ops;
  uint32_t count = 0;
  for (uint32_t i = 0; i < index; ++i) {
    count += ops[i].kind == OpKind::collective && ops[i].payload == Payload::exchanged &&
                     ops[i].key == layer && ops[i].micro == ops[index].micro
                 ? 1
                 : 0;
  }
  return count;
}

const ExchangedTensors& Worker::exchanged(uint32_t index) const {
  const uint32_t layer = role().ops[index].key, at = exchanges_before(layer, index);
  const SliceTensors& s = graph().slice(layer);
  return at < s.forward.size() ? s.forward[at] : s.backward.at(at - s.forward.size());
}

/// So many ops of the same pass and micro-batch, if it is backward those that make inputs' gradients, work on
/// the layer before this one.
uint32_t Worker::part_of(uint32_t layer, uint32_t index) const {
  const auto& ops = role().ops;
  const bool forward = run_.program().tasks[ops[index].what].pass == Pass::forward;
  return static_cast<uint32_t>(std::count_if(ops.begin(), ops.begin() + index, [&](const Op& op) {
    if (op.kind != OpKind::compute || op.payload != Payload::none || op.micro != ops[index].micro)
      return false;
    const Task& task = run_.program().tasks[op.what];
    if (layer < task.layer || layer >= task.layer + task.layers) return false;
    if (forward) return task.pass == Pass::forward;
    if (task.again) return false;
    return task.pass == Pass::backward_data || (task.pass == Pass::backward_weights && !task.parts);
  }));
}

/// A layer's parameters' gradients are made by the task that makes them alone, if there is one, else by the
/// last that works on its backward pass.
Worker::Work Worker::work_of(uint32_t index) const {
  const auto& ops = role().ops;
  const Task& task = run_.program().tasks[ops[index].what];
  Work w{task.layer,
         task.layers,
         task.pass == Pass::forward,
         task.again,
         !task.again && (!task.parts || task.pass == Pass::backward_data),
         {},
         {},
         {}};
  std::vector<bool> last(task.layers, true);
  for (uint32_t layer = w.first; layer < w.first + w.count; ++layer) {
    const SliceTensors& s = graph().slice(layer);
    const bool exchanges = w.forward ? !s.forward.empty() : w.data && !s.backward.empty();
    w.parts.push_back(exchanges ? part_of(layer, index) : 0);
    last[layer - w.first] = !w.data || w.parts.back() + 1 == layers_[layer].data.size();
  }
  if (w.forward || w.again || (task.parts && task.pass == Pass::backward_data)) {
    w.weights.assign(task.layers, false);
    return w;
  }
  w.weights = last;
  for (uint32_t i = 0; i < ops.size() && !task.parts; ++i) {
    if (ops[i].kind != OpKind::compute || ops[i].micro != ops[index].micro) continue;
    const Task& other = run_.program().tasks[ops[i].what];
    if (!other.parts || other.pass != Pass::backward_weights) continue;
    for (uint32_t layer = std::max(w.first, other.layer);
         layer < std::min(w.first + w.count, other.layer + other.layers); ++layer)
      w.weights[layer - w.first] = false;
  }
  for (uint32_t layer = w.first; layer < w.first + w.count; ++layer) {
    if (w.weights[layer - w.first]) w.ranges.insert(w.ranges.end(), flat_[layer].begin(), flat_[layer].end());
  }
  join_ranges(w.ranges);
  w.ranges = held_gradients_.passes.cut(w.ranges);
  return w;
}

void Worker::launch_layers(const Work& w, std::size_t variant, const IterationState& s) {
  for (uint32_t k = 0; k < w.count; ++k) {
    const uint32_t layer = w.forward || w.again ? w.first + k : w.first + w.count - 1 - k,
                   part = w.parts[layer - w.first];
    const LayerLaunches& calls = layers_[layer];
    const bool weights = w.weights[layer - w.first];
    if (w.forward) {
      driver_->launch(calls.forward[part], variant, s);
    } else if (w.again) {
      driver_->launch(calls.recompute, variant, s);
    } else if (w.data && weights && calls.data.size() == 1) {
      driver_->launch(calls.backward, variant, s);
    } else {
      if (w.data) driver_->launch(calls.data[part], variant, s);
      if (weights) driver_->launch(calls.weights, variant, s);
    }
  }
}

/// Does a later op judge the micro-batch again, as a master does whose workers have sent it their outputs?
bool Worker::judges_later(uint32_t index) const {
  const auto& ops = role().ops;
  return std::any_of(ops.begin() + index + 1, ops.end(), [&](const Op& op) {
    if (op.kind != OpKind::compute || op.payload != Payload::none || op.micro != ops[index].micro)
      return false;
    const Task& task = run_.program().tasks[op.what];
    return task.pass == Pass::forward && task.layers > 0 && task.layer + task.layers == layers_.size();
  });
}

Worker::Act Worker::layers(uint32_t index) {
  const Op& op = role().ops[index];
  const bool split = run_.stages().split(), loads = run_.execution().loads();
  const std::vector<Slice> sums = run_.summed_whole(instance_);
  const Work w = work_of(index);
  const bool judges = w.forward && w.first + w.count == layers_.size();
  const bool ends = judges && w.parts.back() + 1 == layers_.back().forward.size() && !judges_later(index);
  // A stage that judges samples but copies no input finds their labels itself.
  const bool labels = judges && w.parts.back() == 0 && split && loads && !has_input();
  if (labels) driver_->reserve_staging(LaneDriver::Staging::input, graph().input_elements());
  const auto at = static_cast<std::size_t>(slot(op));
  // Feedback would keep for ever what is not finite.
  const bool alone = run_.store() != nullptr || offloads() || run_.compresses();
  std::vector<float*> losses;
  for (const TensorId t : graph().losses()) losses.push_back(tensor(t, static_cast<int64_t>(at)));
  return [=, this, micro = int32_t{op.micro}](int32_t iteration) {
    const IterationState s = run_.state(instance_, iteration, micro);
    const std::size_t variant = split ? at : loads ? static_cast<std::size_t>(iteration % kInputBatches) : 0;
    if (labels) load_batch(s.iteration, variant, static_cast<int32_t>(s.iteration), Lane::compute);
    launch_layers(w, variant, s);
    for (const uint32_t key : forgets_[index]) forget(key, Lane::compute);
    if (ends) driver_->take_losses(losses);
    const int32_t step = iteration * run_.stages().micros() + micro;
    for (const auto& [begin, end] : w.ranges) {
      device_->unscale(gradients_at(begin), end - begin, alone, Lane::compute);
      if (run_.execution().integer_gradients) integers(begin, end, step);
      for (const Slice& s : sums)
        add_up(std::max(begin, s.first), std::min(end, s.first + s.elements),
               position(op_position_[index], iteration), Lane::compute);
    }
    return int64_t{0};
  };
}

/// Does an op bring the stage its samples?
bool Worker::has_input() const { return has_stage(run_.program(), role(), CopyKind::input); }

/// Which of a step's gradients the op makes or reduces: of its micro-batches by their order in the program.
void Worker::find_positions() {
  const auto& ops = role().ops;
  op_position_.resize(ops.size());
  std::map<std::pair<bool, uint32_t>, uint32_t> latest;  // (a reduction?, first layer or key) -> op
  const auto meets = [&](uint32_t i, bool reduces, uint32_t of) {
    const auto [at, fresh] = latest.try_emplace({reduces, of}, i);
    if (fresh) return;
    op_position_[at->second].last = false;
    op_position_[i].first = false;
    at->second = i;
  };
  for (uint32_t i = 0; i < ops.size(); ++i) {
    if (ops[i].kind == OpKind::collective && ops[i].payload == Payload::gradients) meets(i, true, ops[i].key);
    if (ops[i].kind != OpKind::compute || ops[i].payload != Payload::none) continue;
    const Work w = work_of(i);
    for (uint32_t layer = w.first; layer < w.first + w.count; ++layer) {
      if (w.weights[layer - w.first] && !flat_[layer].empty()) meets(i, false, layer);
    }
  }
}

/// Of micro-batches that are iterations of the program, or of those within one.
Worker::Position Worker::position(Position of_op, int32_t iteration) const {
  if (run_.stages().micros() > 1) return of_op;
  const int32_t micro = iteration % run_.micro_batches();
  return {micro == 0, micro + 1 == run_.micro_batches()};
}

/// Gradients [begin, end) of a micro-batch, to those before it in the step; the last one finds the sum in
/// their place.
void Worker::add_up(int64_t begin, int64_t end, Position position, Lane lane) {
  if (begin >= end || (position.first && position.last)) return;
  float *const made = gradients_at(begin), *const sum = sums_ + summed_apart_.of(begin, end - begin);
  if (position.first)
    device_->copy(sum, made, end - begin, lane);
  else if (!position.last)
    device_->accumulate(sum, made, end - begin, lane);
  else
    device_->accumulate(made, sum, end - begin, lane);
}

/// -8 .. 7, so that sums of many stay exact in single precision.
void Worker::integers(int64_t begin, int64_t end, int32_t iteration) {
  float* const at = gradients_at(begin);
  float* to = driver_->staging(LaneDriver::Staging::integers, iteration, at);
  if (to != at) to += begin;
  const std::vector<uint32_t> own{run_.stages().place(instance_).replica},
      fed = run_.stages().fed_by(instance_);
  const int64_t experts = run_.stages().experts_from(instance_);
  // Of uneven batches the sum over the samples, which alone is whole.
  const int samples = run_.stages().uneven() ? static_cast<int>(graph().batch()) : 1;
  const std::vector<Slice> alone =
      run_.stages().own_samples() ? in_parts(graph()) : std::vector<Slice>{{0, experts}};
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

/// What a collective works on in the device's memory.
struct Worker::Buffer {
  float* at = nullptr;
  int64_t elements = 0;
  /// Of a gather what this member brings, of a scatter what it takes, where that lies elsewhere: at its place
  /// in the buffer, or where `all` one behind the other and all of the buffer.
  std::vector<std::pair<float*, int64_t>> parts = {};
  bool all = false;
  std::vector<float*> further = {};  ///< as many elements each, summed likewise where they lie
};

/// Partners that divide the sequence gather and scatter it in tensors beside those that layers hand on.
Worker::Buffer Worker::buffer_of_layer(uint32_t index) const {
  const auto& ops = role().ops;
  const Op& op = ops[index];
  const SliceTensors& of = graph().slice(op.key);
  const CollKind kind = run_.program().collectives[op.what].kind;
  const auto words = [&](TensorId t) { return Buffer{tensor(t, slot(op)), graph().tensors()[t].words()}; };
  if (received(op.payload))
    return words(op.payload == Payload::received_activations ? of.output : of.arriving);
  if (op.payload == Payload::exchanged) {
    const ExchangedTensors& x = exchanged(index);
    Buffer out = words(x.to);
    out.all = x.from != x.to;
    if (out.all) out.parts.emplace_back(tensor(x.from, slot(op)), out.elements);
    return out;
  }
  const bool forward = op.payload == Payload::activations, gathers = kind == CollKind::all_gather;
  // In forward, where that is made again once more, and a gather for the parameters' gradients.
  const auto before = std::count_if(ops.begin(), ops.begin() + index, [&](const Op& o) {
    return o.kind == op.kind && o.what == op.what && o.payload == op.payload && o.key == op.key &&
           o.micro == op.micro;
  });
  const bool twice = of.again != kNoTensor, again = twice && before == 1;
  const TensorId output = twice && before > 0 ? of.again : of.output;
  if (kind == CollKind::all_reduce) return words(forward ? output : of.partial);
  Buffer out = !forward     ? words(gathers ? of.made_gradient : of.partial)
               : !gathers   ? words(again ? of.made_twice : of.made)
               : again      ? words(of.gathered_twice)
               : before > 0 ? words(of.gathered_again)
                            : words(of.gathered);
  const Buffer own = words(forward ? output : gathers ? of.gradient : of.scattered);
  out.parts.emplace_back(own.at, own.elements);
  return out;
}

Worker::Buffer Worker::buffer(uint32_t index) const {
  const Op& op = role().ops[index];
  if (op.payload == Payload::sequence_gradients) {
    Buffer out{joined_, sequence_words(role()), {}, true};
    for (const Slice& s : in_parts(graph())) out.parts.emplace_back(gradients_at(s.first), s.elements);
    return out;
  }
  if (op.payload == Payload::state && !run_.stages().split())
    return {parameters_, graph().parameters() * (1 + run_.execution().job.optimizer->state)};
  if (run_.program().delay > 0 && op.payload == Payload::gradients)
    return {delayed_ + run_.program().buckets[op.key].first, run_.program().buckets[op.key].elements};
  if (op.payload == Payload::compressed) {
    const auto [at, elements] = compressed_words_of(index);
    return {at, elements};
  }
  if (of_layers(op.payload)) {
    const bool outputs = !run_.stages().split() && op.payload != Payload::exchanged;
    return outputs ? Buffer{outputs_, op.bytes.n / 4} : buffer_of_layer(index);
  }
  if (op.payload == Payload::shard) {
    const Slice own = run_.share(op.key, instance_);
    return {gradients_ + held_gradients_.kept.of(own.first, own.elements), own.elements};
  }
  if (averages_share(op)) {
    const Slice own = run_.share(op.key, instance_);
    Buffer out{own_parameters(own.first), own.elements};
    if (op.payload == Payload::state) add_state(out.further, state_memory(), own.first);
    return out;
  }
  const Bucket& bucket = run_.program().buckets[op.key];
  if (op.payload == Payload::mean) {  // a step's gradients have been used, and lie there no longer
    Buffer out{gradients_at(bucket.first), bucket.elements, {}, true};
    out.parts.emplace_back(parameters_at(bucket.first), bucket.elements);
    return out;
  }
  return {op.payload == Payload::gradients ? gradients_at(bucket.first) : parameters_at(bucket.first),
          bucket.elements};
}

/// Do groups of devices that train apart average what each of them holds?
bool Worker::averages_share(const Op& op) const {
  return run_.stages().split() && run_.program().collectives[op.what].kind == CollKind::all_reduce &&
         (op.payload == Payload::parameters || op.payload == Payload::state);
}

/// Between a collective's buffer and where the member's parts lie.
void Worker::move_parts(const Buffer& whole, uint32_t rank, bool out, Lane lane) {
  float* at = whole.at;
  for (const auto& [own, elements] : whole.parts) {
    if (!whole.all) at = whole.at + rank * elements;
    device_->copy(out ? own : at, out ? at : own, elements, lane);
    at += elements;
  }
}

/// A collective of which the worker is a member.
struct Worker::Meeting {
  GroupCollective* group = nullptr;
  DeviceGroup* library = nullptr;  ///< makes it where there is one
  uint32_t rank = 0;
  int64_t elements = 0;
  Lane lane = Lane::comm;
  Precision format = Precision::fp32;  ///< in two numbers of which an element is, where that is of 2 bytes
  bool over_links = false;             ///< which begin and end in host memory
};

/// What GroupCollective::run() returns, 0 of a library.
int64_t Worker::meet(const Meeting& m, float* at) {
  if (m.library != nullptr) {
    m.library->run(m.rank, *device_, at, m.elements, m.lane, m.format);
    return 0;
  }
  float* host = m.over_links ? driver_->collective_memory(m.lane, at) : at;
  driver_->to_host(host, at, m.elements, m.lane);
  const int64_t began = m.group->run(m.rank, host, m.elements, driver_->peer_copies(), m.lane, m.format);
  driver_->to_device(at, host, m.elements, m.lane);
  return began;
}

Worker::Act Worker::collective(uint32_t index) {
  const Op& op = role().ops[index];
  const Collective& c = run_.program().collectives[op.what];
  if (run_.carries_tokens(op)) return exchange_tokens(index);
  const Run::Member m = run_.member(c, instance_);
  Buffer whole = buffer(index);
  float* const gradients = whole.at;
  const int64_t each = narrowed_words(run_.program(), op) / m.ranks;
  if (each > 0) whole = {narrowed_, each * m.ranks};
  const HalfGradients half = half_gradients(run_.program(), op);
  const bool halves = half.elements > 0, casts = halves && !casts_gradients(run_.program());
  if (halves) whole = {half_memory(op), half.words()};
  const int64_t n = whole.elements;
  bytes_[index] = halves ? 2 * half.elements : 4 * n * (1 + static_cast<int64_t>(whole.further.size()));
  const bool averages =
      c.kind == CollKind::all_reduce &&
      (op.payload == Payload::parameters || op.payload == Payload::state || op.payload == Payload::mean);
  const float share = 1 / static_cast<float>(m.ranks);
  const bool brings = whole.all || c.kind == CollKind::all_gather,
             takes = (whole.all && c.kind != CollKind::shift && op.payload != Payload::mean) ||
                     c.kind == CollKind::reduce_scatter;
  Meeting meeting{&run_.group(op.what, m.group), run_.library(op.what, m.group), m.rank, n, op.lane};
  if (halves) meeting.format = half_format(run_.execution().job.precision);
  meeting.over_links = run_.has_transport() && meeting.library == nullptr;
  if (meeting.library != nullptr) {
    meeting.library->reserve(m.rank, *device_, n);
    asks_.emplace_back([=, this, at = whole.at] {
      estimates_[index] = meeting.library->estimate(m.rank, *device_, at, n, meeting.lane, meeting.format);
      if (!run_.keep().parameters) in_row_[index] = time_in_row(meeting, at);
    });
  }
  const bool waits = meeting.over_links || lanes_[op.lane].exchanges;  // in which the host takes part
  if (meeting.over_links) driver_->reserve_collective(op.lane, n);
  const Act bring = bring_share(index), keep = keep_share(index);
  const CopiedRange copies = written_by(op);
  const int32_t delay = op.payload == Payload::gradients ? run_.program().delay : 0;
  return [=, this, lane = op.lane, key = op.key](int32_t iteration) {
    const int64_t late = delay > 0 ? iteration % delay * graph().parameters() : 0;
    float* const at = whole.at + (halves ? 0 : late);
    if (bring) bring(iteration);
    if (each > 0) narrow_share(key, at + m.rank * each, lane);
    if (casts) narrow_gradients(half, at, gradients + late, lane);
    if (brings) move_parts(whole, m.rank, false, lane);
    const int64_t began = meet(meeting, at);
    if (takes) move_parts(whole, m.rank, true, lane);
    if (averages) device_->scale(at, share, n, lane);
    for (float* const more : whole.further) {
      meet(meeting, more);
      device_->scale(more, share, n, lane);
    }
    if (each > 0) upcast_shards(key, m, at, each, lane);
    if (casts) upcast_gradients(half, m.rank, gradients + late, at, lane);
    if (keep) keep(iteration);
    renew(copies, lane);
    if (waits) device_->synchronize(lane);
    return began;
  };
}

/// Gradients that a coordinator joins with others are no longer summed by their own op.
void Worker::coordinate() {
  if (run_.cycle() == 0) return;
  LaneState& comm = lanes_[Lane::comm];
  for (LaneOp& bound : comm.ops) {
    const Op& op = role().ops[bound.op];
    if (!run_.coordinated(op)) continue;
    const Bucket& bucket = run_.program().buckets[op.key];
    bound.gradients = {bucket.first, bucket.elements};
  }
  comm.sum = [this](const LaneOp& first, Slice range, int32_t iteration) {
    const uint32_t what = role().ops[first.op].what;
    const Run::Member m = run_.member(run_.program().collectives[what], instance_);
    const auto sum = [&] {
      return run_.group(what, m.group).run(m.rank, gradients_at(range.first), range.elements);
    };
    return run_.keep().norms ? noting_norms(range, iteration, sum) : sum();
  };
}

/// As benchmarks of libraries count them: behind some, so that no member still waits for another to begin.
/// What the buffer holds is lost.
double Worker::time_in_row(const Meeting& meeting, float* at) {
  constexpr int kBefore = 2, kCounted = 20;
  const auto begin = device_->make_event(true), end = device_->make_event(true);
  if (!begin || !end) return 0;
  for (int i = 0; i < kBefore + kCounted; ++i) {
    if (i == kBefore) device_->record(*begin, meeting.lane);
    meet(meeting, at);
  }
  device_->record(*end, meeting.lane);
  while (!device_->finished(*end)) {
    run_.abort().check();
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  return device_->seconds_between(*begin, *end) / kCounted;
}

Worker::Act Worker::copy(uint32_t index) {
  const Op& op = role().ops[index];
  if (op.lane == Lane::offload) return offload(index);
  if (op.lane == Lane::reload) return reload(index);
  const CopyKind kind = run_.program().copies[op.what].kind;
  if (of_input(kind)) return input(op, kind);
  return [](int32_t) { return int64_t{0}; };  // gradients on their way: send() copies them itself
}

}  // namespace tandem::exec
