// SPDX-License-Identifier: Apache-2.0
#include "sim/bound_messages.h"

#include <algorithm>
#include <unordered_map>

#include "models/optimizer.h"
#include "sim/cost/network_software.h"

namespace tandem::sim {

namespace {

/// Accumulating a gradient reads it and the sum and writes the sum; a CPU server's threads reach about half
/// of the memory bandwidth at it.
double reduce_rate(const Device& device) {
  const bool cpu = device.kind == Device::Kind::cpu;
  return device.memory_bandwidth.bytes_per_second * (cpu ? 0.5 : 0.8) / 3;
}

/// Messages of channels: the way between two vertices is priced on first use and kept.
class BoundMessages : public Plan::Messages {
 public:
  BoundMessages(const BindInput& in, MessageCosts costs)
      : program_(in.program),
        machine_(std::move(costs.machine)),
        step_(costs.step),
        workers_(in.cluster.devices),
        system_(*in.system),
        optimizer_(*in.optimizer),
        speeds_(in.speeds),
        links_(std::move(costs.links)),
        where_(std::move(costs.where)),
        extra_(costs.start_up),
        index_(std::move(costs.index)) {
    free_.latency = faster(extra_);
  }

  const Transfer& message(uint32_t channel, uint32_t key, uint32_t sender, uint32_t receiver) override {
    const Channel& c = program_->channels[channel];
    const Bytes bytes = payload(c, key);
    const VertexId from = where_[c.from_role][sender], to = where_[c.to_role][receiver];
    if (machine_ && system_.node_of(from) == system_.node_of(to)) return in_memory(c, bytes, from == to);
    if (from == to || bytes.n <= 0) return free_;
    auto& [t, rate] = ways_[uint64_t{from} << 32 | to];
    if (t.bytes == 0) {
      t = links_->post(from, to, bytes);
      t.latency = faster(t.latency + extra_);
      rate = t.rate_alone(links_->capacity());
      for (Use& use : t.uses) use.link = index_[use.link];
    }
    links_->resize(t, static_cast<double>(bytes.n));
    return machine_ ? over_wire(c, t, rate) : t;
  }

  Time apply(uint32_t store, uint32_t key, uint32_t shard) override {
    const Store& s = program_->stores[store];
    if (machine_) return scaled(merge(s, push_bytes(s, key)), 1 / speeds_.server);
    const Device& device = system_.device(where_[s.role][shard]);
    const double bytes = static_cast<double>(push_bytes(s, key).n);
    const double handled = links_->software().handling;
    if (handled > 0 && device.kind == Device::Kind::cpu)
      return Time::from_seconds(bytes / handled / speeds_.server);
    const double rate = reduce_rate(device);
    if (!optimizer_.updates()) return Time::from_seconds(bytes / rate);
    // One update per `batch` gradients: reads and writes parameter and state besides the gradient.
    const double passes = (3.0 + 2.0 * static_cast<double>(optimizer_.state)) / 3.0 / s.batch;
    return Time::from_seconds(bytes / rate * (1 + passes) / speeds_.server);
  }

 private:
  Time faster(Time latency) const { return scaled(latency, 1 / speeds_.latency); }
  /// A channel's payload is split over the shards on the side that has several.
  Bytes payload(const Channel& c, uint32_t key) const {
    int64_t shards = 1;
    if (c.address == Address::shards) shards = static_cast<int64_t>(where_[c.to_role].size());
    if (c.address == Address::reply) shards = static_cast<int64_t>(where_[c.from_role].size());
    return {(c.key_bytes[key].n + shards - 1) / shards};
  }
  Bytes push_bytes(const Store& s, uint32_t key) const {
    for (const Channel& c : program_->channels) {
      if (c.to_role == s.role && key < c.key_bytes.size()) return payload(c, key);
    }
    return {};
  }

  /// Threads that share memory: a push is applied where it lies, a reply is copied by the one who applies
  /// what opens the gate, before the next one may (exec/comm/store.h): merge() holds one for each push.
  const Transfer& in_memory(const Channel& c, Bytes bytes, bool same) {
    memory_ = {};
    // The push wakes its lane; the reply wakes the lane that waits for it, and that one the forward pass.
    const bool reply = c.address == Address::reply, from = on_device(c.from_role), to = on_device(c.to_role);
    double seconds = (reply ? 2 : 1) * machine_->wake();
    const auto size = static_cast<double>(bytes.n);
    if (from != to)
      seconds += machine_->copy(size, from ? CopyWay::from_device : CopyWay::to_device);
    else if (from && !same)
      seconds += machine_->copy(size, CopyWay::peer);
    memory_.latency = faster(Time::from_seconds(seconds));
    return memory_;
  }
  /// Not where its memory is the host's.
  bool on_device(uint32_t role) const {
    return machine_->apart() && program_->roles[role].site == Site::accelerators;
  }
  /// Between nodes that one machine plays: what a message over loopback takes beyond its bytes at the link's
  /// pace comes as latency, and the reply wakes as in_memory().
  const Transfer& over_wire(const Channel& c, const Transfer& way, double rate) {
    memory_ = way;
    const double beyond = machine_->wire_message(way.bytes, rate) - way.bytes / rate;
    memory_.latency += faster(
        Time::from_seconds(std::max(0.0, beyond) + (c.address == Address::reply ? 2 : 1) * machine_->wake()));
    return memory_;
  }
  /// Within the memory of a store.
  double copy_seconds(Bytes bytes, bool on_device) const {
    return machine_->copy(static_cast<double>(bytes.n), on_device ? CopyWay::device : CopyWay::memory);
  }

  Time merge(const Store& s, Bytes bytes) const {
    const bool device = on_device(s.role);
    const double copied = copy_seconds(bytes, device);
    if (!optimizer_.updates()) return Time::from_seconds((s.batch == 1 ? 1 : 2.5) * copied);
    double update = machine_->seconds(update_kernel(optimizer_, bytes.n / 4), workers_, step_);
    // A host beside GPUs whose kernels were measured: as long as its memory takes for what an update reads
    // and writes, of which a copy is two passes.
    if (machine_->apart() && !device) update = copied * (3 + 2 * static_cast<double>(optimizer_.state)) / 2;
    return Time::from_seconds((s.batch == 1 ? update : copied * 1.5 + update / s.batch) + copied);
  }

  std::shared_ptr<const Program> program_;
  std::shared_ptr<const MachineProfile> machine_;
  Bytes step_;
  int64_t workers_;
  Transfer memory_;
  const System& system_;
  const Optimizer& optimizer_;
  Speeds speeds_;
  std::shared_ptr<LinkCost> links_;
  std::vector<std::vector<VertexId>> where_;
  Time extra_;
  std::vector<uint32_t> index_;  ///< of the binder's resources in the plan
  Transfer free_;
  /// By sender and receiver, with the rate alone; their bytes are the last asked.
  std::unordered_map<uint64_t, std::pair<Transfer, double>> ways_;
};

}  // namespace

std::shared_ptr<Plan::Messages> bound_messages(const BindInput& in, MessageCosts costs) {
  return std::make_shared<BoundMessages>(in, std::move(costs));
}

}  // namespace tandem::sim
