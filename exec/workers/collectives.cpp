// SPDX-License-Identifier: Apache-2.0
#include "exec/workers/collectives.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <span>
#include <thread>

#include "exec/layout/memory.h"

namespace tandem::exec {

namespace {

double squared(const float* at, int64_t n) {
  double out = 0;
  for (int64_t i = 0; i < n; ++i) out += static_cast<double>(at[i]) * static_cast<double>(at[i]);
  return out;
}

}  // namespace

Needs Collectives::needs(const Asked& a) {
  int64_t most = 0;
  for (const Op& op : a.role().ops) {
    if (op.kind == OpKind::collective && op.payload == Payload::activations && !a.stages.split())
      most = std::max(most, op.bytes.n / 4);
  }
  return {{most, &MemoryUse::workspace}, {sequence_words(a.role()), &MemoryUse::workspace}};
}

Collectives::Collectives(const Workplace& place, const Parts& parts)
    : OpHandler(place), parts_(parts), estimates_(role().ops.size()), in_row_(role().ops.size()) {
  const Needs need = needs(place.bench.asked());
  outputs_ = place.bench.allocate(need[0]);
  joined_ = place.bench.allocate(need[1]);
}

/// With Keep::norms also the squared norm of this worker's gradients before they are summed, and of the sum
/// afterwards, as means over their samples.
OpHandler::Act Collectives::bind(uint32_t index) {
  const Op& op = role().ops[index];
  Act act = collective(index);
  if (!plan_.keep().norms || !plan_.sums_gradients(op)) return act;
  const Bucket& bucket = plan_.program().buckets[op.key];
  return [this, act, range = Slice{bucket.first, bucket.elements}](int32_t iteration) {
    return noting_norms(range, iteration, [&] { return act(iteration); });
  };
}

void Collectives::ask_library() {
  for (const auto& ask : asks_) ask();
}

/// The device memory that a collective works on.
struct Collectives::Buffer {
  float* at = nullptr;
  int64_t elements = 0;
  /// A gather's contribution or a scatter's result of this member, if stored separately: at its place in the
  /// buffer, or with `all` one after another and all of the buffer.
  std::vector<std::pair<float*, int64_t>> parts = {};
  bool all = false;
  std::vector<float*> further = {};  ///< further buffers of the same length, summed in place likewise
};

/// Partners that divide the sequence gather and scatter it in tensors separate from the layers' outputs.
Collectives::Buffer Collectives::buffer_of_layer(uint32_t index) const {
  const Op& op = role().ops[index];
  const SliceTensors& of = graph().slice(op.key);
  const CollKind kind = plan_.program().collectives[op.what].kind;
  const auto words = [&](TensorId t) { return Buffer{tensor(t, slot(op)), graph().tensors()[t].words()}; };
  if (received(op.payload))
    return words(op.payload == Payload::received_activations ? of.output : of.arriving);
  if (op.payload == Payload::exchanged) {
    const ExchangedTensors& x = parts_.plan.exchanged(graph(), op.key, index);
    Buffer out = words(x.to);
    out.all = x.from != x.to;
    if (out.all) out.parts.emplace_back(tensor(x.from, slot(op)), out.elements);
    return out;
  }
  const bool forward = op.payload == Payload::activations, gathers = kind == CollKind::all_gather;
  // In forward, its repetition in recomputation, and a gather for the parameters' gradients.
  const uint32_t before = parts_.plan.alike_before(index);
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

Collectives::Buffer Collectives::buffer(uint32_t index) const {
  const Op& op = role().ops[index];
  if (op.payload == Payload::sequence_gradients) {
    Buffer out{joined_, sequence_words(role()), {}, true};
    for (const Slice& s : in_parts(graph())) out.parts.emplace_back(gradients_at(s.first), s.elements);
    return out;
  }
  if (op.payload == Payload::state && !plan_.stages().split())
    return {memory_.parameters(), graph().parameters() * (1 + plan_.execution().job.optimizer->state)};
  if (plan_.program().delay > 0 && op.payload == Payload::gradients)
    return {parts_.updates.delayed() + plan_.program().buckets[op.key].first,
            plan_.program().buckets[op.key].elements};
  if (op.payload == Payload::compressed) {
    const auto [at, elements] = parts_.compression.words_of(index);
    return {at, elements};
  }
  if (of_layers(op.payload)) {
    const bool outputs = !plan_.stages().split() && op.payload != Payload::exchanged;
    return outputs ? Buffer{outputs_, op.bytes.n / 4} : buffer_of_layer(index);
  }
  if (op.payload == Payload::shard) {
    const Slice own = plan_.share(op.key, instance_);
    return {memory_.gradients() + memory_.held_gradients().kept.of(own.first, own.elements), own.elements};
  }
  if (averages_share(op)) {
    const Slice own = plan_.share(op.key, instance_);
    Buffer out{own_parameters(own.first), own.elements};
    if (op.payload == Payload::state) memory_.add_state(out.further, own.first);
    return out;
  }
  const Bucket& bucket = plan_.program().buckets[op.key];
  if (op.payload == Payload::mean) {  // a step's gradients have been used, and are no longer there
    Buffer out{gradients_at(bucket.first), bucket.elements, {}, true};
    out.parts.emplace_back(parameters_at(bucket.first), bucket.elements);
    return out;
  }
  return {op.payload == Payload::gradients ? gradients_at(bucket.first) : parameters_at(bucket.first),
          bucket.elements};
}

/// Whether groups of devices that train separately average what each of them holds.
bool Collectives::averages_share(const Op& op) const {
  return plan_.stages().split() && plan_.program().collectives[op.what].kind == CollKind::all_reduce &&
         (op.payload == Payload::parameters || op.payload == Payload::state);
}

/// Copies between a collective's buffer and the member's parts.
void Collectives::move_parts(const Buffer& whole, uint32_t rank, bool out, Lane lane) {
  float* at = whole.at;
  for (const auto& [own, elements] : whole.parts) {
    if (!whole.all) at = whole.at + rank * elements;
    device_->copy(out ? own : at, out ? at : own, elements, lane);
    at += elements;
  }
}

/// A collective of which the worker is a member.
struct Collectives::Meeting {
  GroupCollective* group = nullptr;
  DeviceGroup* library = nullptr;  ///< runs it, if not null
  uint32_t rank = 0;
  int64_t elements = 0;
  Lane lane = Lane::comm;
  Precision format = Precision::fp32;  ///< format of the elements, two per float if they have 2 bytes
  bool over_links = false;             ///< links begin and end in host memory
};

/// The result of GroupCollective::run(), 0 for a library.
int64_t Collectives::meet(const Meeting& m, float* at) {
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

OpHandler::Act Collectives::collective(uint32_t index) {
  const Op& op = role().ops[index];
  const Collective& c = plan_.program().collectives[op.what];
  const GroupMember m = plan_.member(c, instance_);
  Buffer whole = buffer(index);
  const std::span gradients(whole.at, static_cast<std::size_t>(whole.elements));
  const int64_t each = narrowed_words(plan_.program(), op) / m.ranks;
  if (each > 0) whole = {parts_.half.gathered(), each * m.ranks};
  const HalfGradients half = half_gradients(plan_.program(), op);
  const bool halves = half.elements > 0, casts = halves && !casts_gradients(plan_.program());
  if (halves) whole = {parts_.half.memory_of(op), half.words()};
  const int64_t n = whole.elements;
  bench_.bytes[index] = halves ? 2 * half.elements : 4 * n * (1 + static_cast<int64_t>(whole.further.size()));
  const bool averages =
      c.kind == CollKind::all_reduce &&
      (op.payload == Payload::parameters || op.payload == Payload::state || op.payload == Payload::mean);
  const float share = 1 / static_cast<float>(m.ranks);
  const bool brings = whole.all || c.kind == CollKind::all_gather,
             takes = (whole.all && c.kind != CollKind::shift && op.payload != Payload::mean) ||
                     c.kind == CollKind::reduce_scatter;
  Meeting meeting{&run_.communicators().group(op.what, m.group),
                  run_.communicators().library(op.what, m.group), m.rank, n, op.lane};
  if (halves) meeting.format = half_format(plan_.execution().job.precision);
  meeting.over_links = run_.has_transport() && meeting.library == nullptr;
  if (meeting.library != nullptr) {
    meeting.library->reserve(m.rank, *device_, n);
    asks_.emplace_back([=, this, at = whole.at] {
      estimates_[index] = meeting.library->estimate(m.rank, *device_, at, n, meeting.lane, meeting.format);
      if (!plan_.keep().parameters) in_row_[index] = time_in_row(meeting, at);
    });
  }
  const bool waits = meeting.over_links || bench_.lanes[op.lane].exchanges;  // the host takes part in it
  if (meeting.over_links) driver_->reserve_collective(op.lane, n);
  const Act bring = bring_share(index), keep = keep_share(index);
  const CopiedRange copies = copies_.written_by(op);
  const int32_t delay = op.payload == Payload::gradients ? plan_.program().delay : 0;
  return [=, this, lane = op.lane, key = op.key](int32_t iteration) {
    const int64_t late = delay > 0 ? iteration % delay * graph().parameters() : 0;
    float* const at = whole.at + (halves ? 0 : late);
    if (bring) bring(iteration);
    if (each > 0) parts_.half.narrow_share(key, at + m.rank * each, lane);
    if (casts) parts_.half.narrow_gradients(half, at, {gradients.data() + late, gradients.size()}, lane);
    if (brings) move_parts(whole, m.rank, false, lane);
    const int64_t began = meet(meeting, at);
    if (takes) move_parts(whole, m.rank, true, lane);
    if (averages) device_->scale(at, share, n, lane);
    for (float* const more : whole.further) {
      meet(meeting, more);
      device_->scale(more, share, n, lane);
    }
    if (each > 0) parts_.half.upcast_shares(key, m, at, each, lane);
    if (casts)
      parts_.half.upcast_gradients(half, m.rank, {gradients.data() + late, gradients.size()}, at, lane);
    if (keep) keep(iteration);
    renew(copies, lane);
    if (waits) device_->synchronize(lane);
    return began;
  };
}

void Collectives::coordinate() {
  if (run_.coordinator().cycle() == 0) return;
  LaneState& comm = bench_.lanes[run_.coordinator().lane()];
  for (LaneOp& bound : comm.ops) {
    const Op& op = role().ops[bound.op];
    if (!run_.coordinator().decides(op)) continue;
    const Bucket& bucket = plan_.program().buckets[op.key];
    bound.gradients = {bucket.first, bucket.elements};
  }
  comm.sum = [this](const LaneOp& first, Slice range, int32_t iteration) {
    const uint32_t what = role().ops[first.op].what;
    const GroupMember m = plan_.member(plan_.program().collectives[what], instance_);
    const auto sum = [&] {
      return run_.communicators().group(what, m.group).run(m.rank, gradients_at(range.first), range.elements);
    };
    return plan_.keep().norms ? noting_norms(range, iteration, sum) : sum();
  };
}

/// As libraries' benchmarks count: after several, so that no member still waits for another to begin. The
/// buffer's contents are lost.
double Collectives::time_in_row(const Meeting& meeting, float* at) {
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

void Collectives::join_groups() {
  const auto& collectives = plan_.program().collectives;
  for (uint32_t c = 0; c < collectives.size(); ++c) {
    const GroupMember m = plan_.member(collectives[c], instance_);
    if (DeviceGroup* library = run_.communicators().library(c, m.group)) library->join(m.rank, *device_);
  }
}

/// Before parameters are gathered. Null if the collective gathers none, or in place.
OpHandler::Act Collectives::bring_share(uint32_t index) {
  const Op& op = role().ops[index];
  const bool gathers =
      op.payload == Payload::parameters && plan_.program().collectives[op.what].kind == CollKind::all_gather;
  if (!gathers || !in_gather_buffer(op.key) || plan_.execution().job.offload.parameters) return nullptr;
  const Slice own = plan_.share(op.key, instance_);
  if (own.elements == 0) return nullptr;
  return [this, own, lane = op.lane](int32_t) {
    device_->copy(parameters_at(own.first), own_parameters(own.first), own.elements, lane);
    return int64_t{0};
  };
}

/// After the sum of gradients of which each worker keeps its share, added to those of the step's earlier
/// micro-batches. Null if the collective leaves it in place permanently.
OpHandler::Act Collectives::keep_share(uint32_t index) {
  const Op& op = role().ops[index];
  if (op.payload != Payload::gradients ||
      plan_.program().collectives[op.what].kind != CollKind::reduce_scatter)
    return nullptr;
  const Slice own = plan_.share(op.key, instance_);
  const StepPosition of_op = parts_.plan.position(index);
  if (!gradients_in_gather_buffer(op.key)) {
    if (!plan_.gradient_scale().each_micro_batch_sums || plan_.sums_on_host()) return nullptr;
    return [this, own, of_op, lane = op.lane](int32_t iteration) {
      parts_.sums.add_up(own.first, own.first + own.elements, position(plan_, of_op, iteration), lane);
      return int64_t{0};
    };
  }
  return [this, own, of_op, &bucket = plan_.program().buckets[op.key], lane = op.lane](int32_t iteration) {
    if (own.elements > 0) {
      float *const to = own_gradients(own.first), *const from = gradients_at(own.first);
      if (plan_.sums_on_host() || position(plan_, of_op, iteration).first)
        device_->copy(to, from, own.elements, lane);
      else
        device_->accumulate(to, from, own.elements, lane);
    }
    if (plan_.execution().poison)
      device_->scale(gradients_at(bucket.first), std::numeric_limits<float>::quiet_NaN(), bucket.elements,
                     lane);
    return int64_t{0};
  };
}

int64_t Collectives::noting_norms(Slice range, int32_t iteration, const std::function<int64_t()>& sum) {
  const int32_t micro = plan_.micro_batches();
  const double workers = plan_.workers();
  const float* const at = gradients_at(range.first);
  const auto step = static_cast<std::size_t>(iteration / micro);
  if (norms_.size() <= step) norms_.resize(step + 1);
  norms_[step].small += squared(at, range.elements) / (double{1} * micro * micro);
  const int64_t began = sum();
  norms_[step].big += squared(at, range.elements) / (workers * workers * micro * micro);
  return began;
}

}  // namespace tandem::exec
