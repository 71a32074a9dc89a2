// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/costs.h"

#include <algorithm>

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

bool copies_module(const Task& task) { return task.layers == 0 && task.kernels.empty(); }

Costs::Costs(const CostInput& input)
    : in_(input),
      overheads_(input.job.scheme->overheads),
      // One launcher starts a collective on each of its devices.
      start_up_(overheads_.collective * (overheads_.one_launcher ? input.cluster.per_node : 1)),
      links_(*input.system, between_nodes(overheads_, input.cluster)) {}

Time Costs::start(VertexId at, Site site) const {
  const Time iteration =
      host_issues(at, site) ? Time{} : Time{overheads_.iteration.ps / program().micro_batches};
  return scaled(feeding(in_, overheads_) + iteration, 1 / in_.speeds.launch);
}

Transfer Costs::copy(const Op& op, VertexId at) {
  const Copy& copy = program().copies[op.what];
  Transfer t;
  if (copy.kind == CopyKind::input) {
    const Sample& s = in_.job.graph->sample();
    t = links_.input(at, copy.samples, s.stored, s.decoded, s.decode_seconds);
  } else {
    const VertexId host = in_.system->host_of(at);
    const bool in = copy.kind == CopyKind::host_to_device;
    t = links_.message(in ? host : at, in ? at : host, op.bytes);
  }
  t.latency = at_speed(t.latency);
  return t;
}

Transfer Costs::collective(const Op& op, std::span<const VertexId> members, bool last) {
  Transfer t = collective_alone(op, members);
  // A coordinator looks every cycle: the last gradients wait for half of one in the mean.
  const double wait = last ? overheads_.cycle.seconds() / 2 : 0;
  t.latency = at_speed(t.latency + Time::from_seconds(wait + agreement(last)));
  return t;
}

Transfer Costs::over_links(const Op& op, std::span<const VertexId> members) {
  const Collective& c = program().collectives[op.what];
  // Where products go in as many parts as devices share them, the sum or gather of all parts but one is under
  // the product of another; what is left of it is counted, on its links too.
  const bool in_parts =
      in_.job.scheme->recipe.products_in_parts && of_layers(op.payload) && op.payload != Payload::exchanged;
  const Bytes bytes{in_parts ? op.bytes.n / static_cast<int64_t>(members.size()) : op.bytes.n};
  Transfer t = c.kind == CollKind::shift ? links_.exchange(LinkCost::Exchange::sendrecv, bytes, members)
                                         : links_.collective(c.kind, c.algorithm, bytes, members);
  t.latency += start_up_;
  const double membw = in_.system->device(members[0]).memory_bandwidth.bytes_per_second;
  t.latency += Time::from_seconds(overheads_.copies_per_byte * static_cast<double>(op.bytes.n) / membw);
  return t;
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
    way.rate = way.transfer.rate_alone(links_.capacity());
  }
  links_.resize(way.transfer, static_cast<double>(bytes.n));
  return way;
}

int64_t Costs::served_with(VertexId at) const {
  const System& system = *in_.system;
  const VertexId host = system.host_of(at);
  int64_t count = 0;
  for (const VertexId v : system.accelerators()) count += system.host_of(v) == host ? 1 : 0;
  return std::clamp<int64_t>(count, 1, std::max<int64_t>(1, in_.cluster.devices));
}

Transfer Costs::nothing() const {
  Transfer t;
  t.latency = at_speed(start_up_);
  return t;
}

}  // namespace tandem::sim
