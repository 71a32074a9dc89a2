// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/machine_costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "models/optimizer.h"
#include "schemes/program/lane_order.h"
#include "sim/cost/limited_clocks.h"
#include "sim/cost/machine_collective.h"

namespace tandem::sim {

namespace {

class MachineCosts : public Costs {
 public:
  MachineCosts(const CostInput& in, std::shared_ptr<const MachineProfile> machine)
      : Costs(in), machine_(std::move(machine)), step_(moved_in_step(program())) {
    share_cores();
    check_comm_cores();
  }

  Time task(const Task& task, VertexId at, Site) override {
    double seconds = machine_->op_overhead() / input().speeds.launch;
    for (const Kernel& k : task.kernels) {
      const KernelTime time = kernel_time(k, at);
      seconds += time.seconds;
      if (time.distance >= KernelNeighbours::kFar) note_far(k, extrapolates_);
    }
    return Time::from_seconds(seconds * crowded_);
  }

  /// Beside GPUs as the host's updates were measured; else as an update of a worker.
  Time host_task(const Task& task, VertexId at) override {
    double seconds = 0;
    for (const Kernel& k : task.kernels)
      seconds += machine_->apart() ? host_update(k) * static_cast<double>(input().cluster.devices)
                                   : kernel_time(k, at).seconds;
    return Time::from_seconds(seconds / input().speeds.server);
  }

  HostTimes host(uint32_t, VertexId) override { return {}; }

  /// Between a device and its host: as copies were measured.
  Transfer copy(const Op& op, const Copy& copy, VertexId at) override {
    const CopyKind kind = copy.kind;
    if (kind == CopyKind::read || kind == CopyKind::decode) {
      const double sample = of_sample(op, copy);
      if (sample == 0) return Costs::copy(op, copy, at);
      Transfer t;
      const double turns = std::ceil(static_cast<double>(copy.samples) / threads());
      t.latency = at_speed(Time::from_seconds(turns * sample * crowded_));
      return t;
    }
    if (kind == CopyKind::decode_device) return Costs::copy(op, copy, at);
    const CopyWay way = !machine_->apart()                 ? CopyWay::memory
                        : kind == CopyKind::device_to_host ? CopyWay::from_device
                                                           : CopyWay::to_device;
    Transfer t;
    t.latency = at_speed(Time::from_seconds(machine_->copy(static_cast<double>(op.bytes.n), way)));
    if (!of_input(kind)) t.spread = spread_between(input().system->host_of(at), at);
    return t;
  }

  /// Workers that have no second core for their messages give up theirs.
  Beside beside(const Op& op, const Transfer&, double seconds, const Task&, VertexId) override {
    if (!interferes()) return {};
    const double workers = devices();
    const auto cores = static_cast<double>(machine_->cores());
    const double shared = std::clamp((2 * workers - cores) / workers, 0.0, 1.0);
    const auto cpu = tcp_cpu_.find({op.what, op.bytes.n});
    const double lost = cpu == tcp_cpu_.end() ? 0 : std::min(1.0, shared * cpu->second / seconds);
    return {1, 1, lost};
  }
  bool interferes() const override { return input().cluster.nodes > 1 && program().comm_cores == 0; }

  const Transfer& message(const Channel& c, VertexId from, VertexId to, Bytes bytes) override {
    const System& system = *input().system;
    if (system.node_of(from) == system.node_of(to)) {
      message_ = in_memory(c, bytes, from == to);
      message_.spread = spread_between(from, to);
    } else if (bytes.n <= 0) {
      message_ = nothing();
    } else {
      message_ = over_tcp(c, way(from, to, bytes));
    }
    return message_;
  }

  /// Within the memory of the store. Of those that make a version the first is copied, next ones are added.
  Time merge(const Store& store, VertexId, Bytes bytes) override {
    const Optimizer& optimizer = *input().job.optimizer;
    const double copied = copied_in(store, bytes), added = added_in(store, bytes);
    double seconds = store.batch == 1 ? 0 : (copied + added * (store.batch - 1)) / store.batch;
    if (store.averaging.rule != Averaging::Rule::none) {
      seconds = added;
    } else if (optimizer.updates()) {
      const Kernel kernel = update_kernel(optimizer, bytes.n / 4);
      const double update =
          beside_gpus(store) ? host_update(kernel) : machine_->seconds(kernel, active(), step_);
      seconds += update / store.batch;
    }
    if (!store.locked) seconds += copied;
    return scaled(Time::from_seconds(seconds), 1 / input().speeds.server);
  }
  /// Whoever opens the gate copies the answers to all that it lets pass, one after another, before the next
  /// push is merged (exec/comm/store.h). Where stores have no lock merge() holds it.
  Time snapshot(const Store& store, VertexId, Bytes bytes) override {
    if (!store.locked) return {};
    return scaled(Time::from_seconds(copied_in(store, bytes)), 1 / input().speeds.server);
  }

  KernelTime kernel(const Kernel& kernel, VertexId at) override { return kernel_time(kernel, at); }
  CostError error(VertexId, double distance) override {
    return {machine_->error(distance), std::hypot(machine_->error_of_several(), error_of_sharing())};
  }
  std::optional<Disturbance> disturbance(double compute_seconds) const override {
    Disturbance d = machine_->disturbance(input().cluster.devices, compute_seconds, in_lock_step(program()));
    d.shared.one_thread = one_thread_ && input().cluster.nodes == 1;
    if (!takes_turns() && !lanes_take_turns()) d.shared = {};
    return d;
  }
  std::vector<std::string> extrapolates() const override {
    std::vector<std::string> out = extrapolates_;
    if (!machine_->origin().busy.empty())
      out.push_back("the profile was measured on a busy machine: " + machine_->origin().busy);
    return out;
  }

 protected:
  /// Between nodes by the system's links, unless the machine emulates them.
  Transfer collective_alone(const Op& op, std::span<const VertexId> members) override {
    const bool shown = (input().cluster.nodes == 1 || machine_->has_tcp()) &&
                       program().collectives[op.what].kind != CollKind::shift;
    return shown ? as_measured(op, members) : over_links(op, members);
  }
  double agreement(bool) const override { return 0; }  // measured collectives hold it
  bool host_issues(VertexId, Site) const override { return false; }

 private:
  /// Relative standard error of a step whose workers share a GPU: anything between the two bounds is as
  /// likely.
  double error_of_sharing() const {
    double unknown = 0, compute = 0;
    program().roles[0].ops.each_distinct([&](const Op& op, int64_t runs) {
      if (!launched(op)) return;
      const double times = static_cast<double>(runs) / op.every;
      for (const Kernel& k : program().tasks[op.what].kernels) {
        unknown += machine_->seconds_unknown(k, active(), step_) * times;
        compute += machine_->seconds(k, active(), step_) * times;
      }
    });
    return compute > 0 ? unknown / compute / std::sqrt(3.0) : 0;
  }

  double threads() const { return static_cast<double>(std::max<int64_t>(1, input().job.loading.workers)); }
  /// Seconds of all launches of an update on a host with GPUs, whose kernels the others are.
  double host_update(const Kernel& k) const {
    return machine_->host_update(static_cast<double>((k.read + k.written).n) * static_cast<double>(k.repeat));
  }

  /// Seconds of a thread for a sample that is read from the page cache, or decoded; 0: not measured.
  double of_sample(const Op& op, const Copy& copy) const {
    const auto& data = input().job.loading.data;
    if (!data) return 0;
    if (copy.kind == CopyKind::read) {
      const auto& rate = machine_->input().read[data->files ? 1 : 0];
      return rate ? rate->seconds(data->bytes) : 0;
    }
    const auto& rate = machine_->input().decoding(data->format, takes_grey());
    const double values = static_cast<double>(op.bytes.n) / 4 / static_cast<double>(copy.samples);
    return rate ? rate->seconds(data->bytes, data->pixels, values) : 0;
  }

  /// Does the model take pictures of one channel?
  bool takes_grey() const {
    const auto& layers = input().job.graph->layers();
    return std::any_of(layers.begin(), layers.end(), [](const Layer& layer) {
      return layer.type == nullptr && layer.output.size() == 3 && layer.output[0] == 1;
    });
  }

  /// Workers compute on the cores by which they read and decode. Together these do nothing but work, so that
  /// a step takes at least all of that over the cores.
  void share_cores() {
    double compute = 0, load = 0, longest = 0;
    const VertexId at = input().system->accelerator(0);
    program().roles[0].ops.each_distinct([&](const Op& op, int64_t runs) {
      const auto times = static_cast<double>(runs);
      if (launched(op)) {
        for (const Kernel& k : program().tasks[op.what].kernels)
          compute += kernel_time(k, at).seconds * times / op.every;
      }
      if (op.kind != OpKind::copy || (op.lane != Lane::read && op.lane != Lane::decode)) return;
      const Copy& copy = program().copies[op.what];
      const double work = of_sample(op, copy) * static_cast<double>(copy.samples) * times;
      load += work;
      longest = std::max(longest, work / threads());
    });
    longest = std::max(longest, compute);
    const double workers = machine_->apart() ? 0 : devices();
    const double all = (workers * compute + devices() * load) / static_cast<double>(machine_->cores());
    if (load > 0 && longest > 0) crowded_ = std::max(1.0, all / longest);
  }

  /// Workers that do not wait for each other, more than there are cores.
  bool takes_turns() const {
    return free_running(program()) && machine_->takes_turns(input().cluster.devices);
  }

  /// Threads of one worker that does not wait for others.
  bool lanes_take_turns() const {
    return free_running(program()) && !one_thread_ && input().cluster.nodes == 1 && program().comm_cores == 0;
  }

  /// Workers that compute at the same time.
  int64_t active() const { return takes_turns() ? machine_->cores() : input().cluster.devices; }

  /// Kernels were measured on the cores that compute, so that others do not shorten these; but they must be
  /// there.
  void check_comm_cores() const {
    const int64_t each = program().comm_cores, workers = input().cluster.devices;
    if (each == 0 || machine_->apart() || workers * (1 + each) <= machine_->cores()) return;
    throw InputError(
        fmt::format("comm-cores={}: {} workers need {} cores, of which the machine of this profile has {}",
                    each, workers, workers * (1 + each), machine_->cores()));
  }

  KernelTime kernel_time(const Kernel& kernel, VertexId at) {
    double distance = 0;
    const double seconds = machine_->seconds(kernel, active(), step_, &distance);
    const double slowdown = clocks_.slowdown(
        kernel, at, [&](const Kernel& k, VertexId) { return machine_->seconds(k, active(), step_); });
    return {seconds * slowdown * compute_scale(), distance};
  }

  /// The machine may emulate several nodes itself.
  Transfer as_measured(const Op& op, std::span<const VertexId> at) {
    std::vector<int64_t> nodes;
    for (const VertexId v : at) nodes.push_back(input().system->node_of(v));
    const auto other = std::find_if(at.begin(), at.end(),
                                    [&](VertexId v) { return input().system->node_of(v) != nodes.front(); });
    Transfer link;
    if (other != at.end()) link = links().message(at.front(), *other, op.bytes);
    const MachineCollective cost =
        machine_collective(*machine_, program().collectives[op.what], op.bytes, nodes,
                           other == at.end() ? 0 : link.rate_alone(capacity()));
    tcp_cpu_[{op.what, op.bytes.n}] = cost.cpu;
    Transfer t;
    t.latency = Time::from_seconds(cost.seconds + 2 * wake()) + link.latency * cost.messages;
    return t;
  }

  /// In the memory of a host whose devices have their own.
  bool beside_gpus(const Store& store) const { return machine_->apart() && !on_device(store.role); }
  double copied_in(const Store& store, Bytes bytes) const {
    return machine_->copy(static_cast<double>(bytes.n),
                          on_device(store.role) ? CopyWay::device : CopyWay::memory);
  }
  /// Two vectors are read and one of them is written. On a host as an update that moves as much: a processor
  /// that copies first reads the lines that it writes, too, so that a copy takes about as long.
  double added_in(const Store& store, Bytes bytes) const {
    return beside_gpus(store) ? machine_->host_update(3 * static_cast<double>(bytes.n))
                              : 1.5 * copied_in(store, bytes);
  }

  /// Threads that share memory: a push is applied where it lies.
  Transfer in_memory(const Channel& c, Bytes bytes, bool same) const {
    const bool from = on_device(c.from_role), to = on_device(c.to_role);
    double seconds = wakes(c) * wake();
    const auto size = static_cast<double>(bytes.n);
    if (from != to)
      seconds += machine_->copy(size, from ? CopyWay::from_device : CopyWay::to_device);
    else if (from && !same)
      seconds += machine_->copy(size, CopyWay::peer);
    Transfer t;
    t.latency = at_speed(Time::from_seconds(seconds));
    return t;
  }

  /// Between nodes that one machine emulates: what a message over loopback takes beyond its bytes at the
  /// link's pace comes as latency.
  Transfer over_tcp(const Channel& c, const Way& way) const {
    Transfer t = way.transfer;
    const double beyond = machine_->tcp_message(t.bytes, way.rate) - t.bytes / way.rate;
    t.latency += at_speed(Time::from_seconds(std::max(0.0, beyond) + wakes(c) * wake()));
    return t;
  }

  /// From one lane's thread to another's; none where one thread walks through all lanes.
  double wake() const { return one_thread_ ? 0 : machine_->wake(); }
  /// A push wakes its lane; a reply wakes the lane that waits for it, and that one the forward pass. With two
  /// requests the lane that the first one's reply wakes asks by itself.
  double wakes(const Channel& c) const {
    const bool replies = c.address == Address::reply;
    for (const Store& s : program().stores) {
      if (s.reader < 0) continue;
      if (c.to_role == s.answers()) return 0;
      if (replies) return 1;
    }
    return replies ? 2 : 1;
  }

  /// Not where its memory is the host's.
  bool on_device(uint32_t role) const {
    return machine_->apart() && program().roles[role].site == Site::accelerators;
  }

  std::shared_ptr<const MachineProfile> machine_;
  Bytes step_;  ///< moved_in_step()
  LimitedClocks clocks_{program(), *input().system, input().job.precision};
  /// As the executor runs a worker then (exec/run/lanes.cpp).
  bool one_thread_ = one_after_another(program(), program().roles[0]) && program().comm_cores == 0 &&
                     overheads().cycle.ps == 0;
  double crowded_ = 1;  ///< factor on the time of work if input has no separate core
  Transfer message_;
  std::vector<std::string> extrapolates_;
  /// Over emulated nodes: processor seconds of a rank, by collective and bytes.
  std::map<std::pair<uint32_t, int64_t>, double> tcp_cpu_;
};

}  // namespace

std::shared_ptr<Costs> machine_costs(const CostInput& input, std::shared_ptr<const MachineProfile> machine) {
  return std::make_shared<MachineCosts>(input, std::move(machine));
}

}  // namespace tandem::sim
