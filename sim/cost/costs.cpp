// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/cost/input_costs.h"
#include "sim/cost/link_pattern.h"
#include "sim/cost/link_spread.h"
#include "sim/cost/network_software.h"

namespace tandem::sim {

namespace {

/// One node's processes talk through its memory.
Overheads between_nodes(Overheads overheads, const Cluster& cluster) {
  if (cluster.nodes == 1) overheads.network.clear();
  return overheads;
}

/// What one process takes to hand all devices their input before a step.
Time feeding(const CostInput& in, const Overheads& overheads) {
  const double rate = overheads.feed.bytes_per_second;
  if (rate == 0) return {};
  const auto samples = static_cast<double>(in.program->samples_per_iteration * replicas(*in.program));
  return Time::from_seconds(samples * static_cast<double>(in.job.graph->sample().decoded.n) / rate);
}

}  // namespace

Bytes moved_in_step(const Program& program) {
  Bytes out;
  program.roles[0].ops.each_distinct([&](const Op& op, int64_t runs) {
    if (!launched(op)) return;
    const int64_t times = runs * std::max(1, program.micro_batches / op.every);
    for (const Kernel& k : program.tasks[op.what].kernels) out += (k.read + k.written) * (k.repeat * times);
  });
  return out;
}

bool copies_module(const Task& task) { return task.layers == 0 && task.kernels.empty(); }

Costs::Costs(const CostInput& input)
    : in_(input),
      overheads_(input.job.scheme->overheads),
      // One launcher starts a collective on each of its devices.
      start_up_(overheads_.collective * (overheads_.one_launcher ? input.cluster.per_node : 1)),
      links_(*input.system, between_nodes(overheads_, input.cluster), input.speeds, input.priced.get()),
      incast_(*input.system, input.speeds.timers) {}

Time Costs::start(VertexId at, Site site) const {
  const Time iteration =
      host_issues(at, site) ? Time{} : Time{overheads_.iteration.ps / program().micro_batches};
  return scaled(feeding(in_, overheads_) + iteration, 1 / in_.speeds.launch);
}

Transfer Costs::copy(const Op& op, const Copy& copy, VertexId at) {
  Transfer t;
  if (of_input(copy.kind)) {
    t = input_stage(op, copy, at);
  } else {
    const VertexId host = in_.system->host_of(at);
    const bool in = copy.kind == CopyKind::host_to_device;
    t = links_.message(in ? host : at, in ? at : host, op.bytes);
    t.spread = spread_between(host, at);
  }
  t.latency = at_speed(t.latency);
  return t;
}

double Costs::spread_between(VertexId a, VertexId b) const {
  return link_spread(*in_.system, std::array{a, b}, in_.measured != nullptr);
}

Transfer Costs::input_stage(const Op& op, const Copy& copy, VertexId at) {
  const Loading& how = in_.job.loading;
  // A process that drives all devices of a node reads for all of them, by itself where nothing is prefetched.
  const bool shared = how.prefetch == 0 && overheads_.single_process;
  const auto readers = static_cast<double>(shared ? std::max<int64_t>(1, in_.cluster.per_node) : 1),
             samples = static_cast<double>(copy.samples),
             threads = static_cast<double>(how.workers) / readers;
  switch (copy.kind) {
    case CopyKind::read: {
      const double stored = static_cast<double>(op.bytes.n) / samples;
      // Every epoch in another order: what a cache holds of the data is as likely to be asked for as the
      // rest.
      const double cache = static_cast<double>(in_.system->host(in_.system->kind_of(at)).page_cache.n);
      const double held = how.data && !how.first_epoch ? std::min(1.0, cache / how.data->total()) : 0;
      return links_.read(at, {samples, stored, how.data && how.data->files, how.staged, 1 - held, threads});
    }
    case CopyKind::decode:
      return links_.decode(at, op.bytes, samples * decode_seconds(in_.job), threads);
    case CopyKind::decode_device: {
      Transfer t;
      t.latency = Time::from_seconds(samples * device_decode_seconds(in_.job));
      return t;
    }
    default:
      return links_.input(at, op.bytes);
  }
}

Transfer Costs::collective(const Op& op, std::span<const VertexId> members, bool awaited) {
  Transfer t = collective_alone(op, members);
  // A coordinator looks every cycle: an awaited sum waits for half of one on average.
  const bool last = op.payload == Payload::gradients && in_.last_look.ps > 0;
  const double wait = !awaited ? 0 : last ? in_.last_look.seconds() : overheads_.cycle.seconds() / 2;
  t.latency = at_speed(t.latency + Time::from_seconds(wait + agreement(awaited))) + timeouts(op, members);
  t.spread = link_spread(*in_.system, members, in_.measured != nullptr);
  return t;
}

/// Of collectives in which each member sends to every other, all at once.
Time Costs::timeouts(const Op& op, std::span<const VertexId> members) {
  const Collective& c = program().collectives[op.what];
  const bool direct = c.kind == CollKind::all_to_all || c.algorithm == "direct";
  if (!direct || incast_.none()) return {};
  return incast_.group(std::string(schemes::name(c.kind)), members,
                       static_cast<double>(op.bytes.n) / static_cast<double>(members.size()));
}

Transfer Costs::over_links(const Op& op, std::span<const VertexId> members) {
  const Collective& c = program().collectives[op.what];
  // Where products go in as many parts as devices share them, the sum or gather of all parts but one is under
  // the product of another; what is left of it is counted, on its links too.
  const bool in_parts = in_.job.scheme->recipe.products_in_parts && of_layers(op.payload) &&
                        op.payload != Payload::exchanged && !received(op.payload);
  const Bytes bytes{in_parts ? op.bytes.n / static_cast<int64_t>(members.size()) : op.bytes.n};
  Transfer t = c.kind == CollKind::shift ? links_.exchange(LinkCost::Exchange::sendrecv, bytes, members)
                                         : links_.collective(c.kind, c.algorithm, bytes, members);
  if (in_.measured && c.kind != CollKind::shift && c.algorithm == "auto")
    t.stretch(measured_factor(c.kind, bytes, members));
  t.latency += start_up_;
  t.latency += Time::from_seconds(copying(overheads_, op, in_.system->device(members[0])));
  return t;
}

double copying(const Overheads& overheads, const Op& op, const Device& device) {
  return overheads.copies_per_byte * static_cast<double>(op.bytes.n) /
         device.memory_bandwidth.bytes_per_second;
}

double Costs::measured_factor(CollKind kind, Bytes bytes, std::span<const VertexId> members) {
  if (members.size() < 2 || bytes.n <= 0) return 1;
  std::pair<CollKind, std::vector<VertexId>> key{kind, {members.begin(), members.end()}};
  if (const auto known = corrections_.find(key); known != corrections_.end())
    return known->second.factor(bytes.n);
  const std::string asked = measured_name(kind);
  const auto devices = static_cast<int64_t>(members.size());
  const MeasuredCollective* found = in_.measured->find(asked, devices);
  const int64_t per_node = in_.system->accelerator_count() / in_.system->nodes();
  const auto usual = static_cast<std::size_t>((devices + per_node - 1) / per_node);
  const bool placed = make_group(*in_.system, members).nodes() == usual;
  std::string remark;
  std::vector<CollectivePoint> points;
  if (found != nullptr && placed) {
    points = found->points;
    remark = fmt::format("{} of {} devices corrected by {} measured sizes of {} ({})", asked, devices,
                         points.size(), found->kind, in_.measured->source);
  } else {
    remark = fmt::format("{} of {} devices{}: the collective profile says nothing of it, stock figures",
                         asked, devices, found != nullptr ? " over other nodes than were measured" : "");
  }
  if (std::find(measured_notes_.begin(), measured_notes_.end(), remark) == measured_notes_.end())
    measured_notes_.push_back(remark);
  const Harness harness = found != nullptr ? found->harness : Harness{};
  CollKind measured = kind;
  for (int k = 0; k < kCollKinds && found != nullptr; ++k) {
    if (measured_name(static_cast<CollKind>(k)) == found->kind) measured = static_cast<CollKind>(k);
  }
  const auto predict = [this, measured, harness, group = key.second](int64_t size) {
    LinkCost::Choice choice;
    const Transfer t = links_.collective(measured, "auto", Bytes{size}, group, &choice);
    return links_.reported(t.alone(links_.capacity()).seconds(), choice, harness);
  };
  return corrections_.emplace(std::move(key), CollectiveCorrection(points, predict))
      .first->second.factor(bytes.n);
}

void Costs::connect(std::span<const VertexId> from, std::span<const VertexId> to) {
  if (!links_.software().binds()) return;
  for (const VertexId sender : from) {
    for (const VertexId receiver : to) {
      links_.thread_of(sender, receiver);
      links_.thread_of(receiver, sender);
    }
  }
}

Costs::Way& Costs::way(VertexId from, VertexId to, Bytes bytes) {
  Way& way = ways_[uint64_t{from} << 32 | to];
  if (way.transfer.bytes == 0) {
    way.transfer = links_.post(from, to, bytes);
    way.transfer.latency = at_speed(way.transfer.latency + start_up_);
    way.transfer.spread = spread_between(from, to);
    way.rate = way.transfer.rate_alone(links_.capacity());
  }
  links_.resize(way.transfer, static_cast<double>(bytes.n));
  return way;
}

int64_t Costs::served_with(VertexId at) const {
  const System& system = *in_.system;
  const VertexId host = system.host_of(at);
  int64_t count = 0;
  for (const uint32_t local : system.accelerators(system.kind_of(at)))
    count += system.host_of(system.vertex(system.node_of(at), local)) == host ? 1 : 0;
  return std::clamp<int64_t>(count, 1, std::max<int64_t>(1, in_.cluster.devices));
}

Transfer Costs::nothing() const {
  Transfer t;
  t.latency = at_speed(start_up_);
  return t;
}

}  // namespace tandem::sim
