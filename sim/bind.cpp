// SPDX-License-Identifier: Apache-2.0
#include "sim/bind.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <tuple>

#include "sim/bound_messages.h"
#include "sim/cost/kernel_cost.h"
#include "sim/cost/link_cost.h"
#include "sim/cost/machine.h"
#include "sim/cost/machine_collective.h"
#include "sim/cost/network_software.h"

namespace tandem::sim {

namespace {

/// Devices above which the first node stands for all and every instance no longer gets transfers of its own:
/// what symmetric instances share is then divided between them in advance, which is exact for transfers that
/// they make in lock step. Ops of unlike lanes are taken not to slow each other.
constexpr int64_t kOwnTransfers = 512;
/// Of a settled transfer so many of the busiest links are accounted for.
constexpr std::size_t kSettledLinks = 64;

/// Host seconds of one eager operation in a tight loop on a core of speed 1 (flagos-ai/Torch-FL#27: 8 us).
constexpr double kPlainOp = 8e-6;

/// The host's copying of the module for all devices.
bool copies_module(const Task& task) { return task.layers == 0 && task.kernels.empty(); }

/// One node's processes talk through its memory.
Overheads between_nodes(const BindInput& in) {
  Overheads out = in.overheads;
  if (in.cluster.nodes == 1) out.network.clear();
  return out;
}

class Binder {
 public:
  explicit Binder(const BindInput& input)
      : in_(input),
        program_(*input.program),
        machine_(MachineProfile::find(input.profile, input.precision)),
        links_(std::make_shared<LinkCost>(*input.system, between_nodes(input))),
        where_(place(program_, *input.system, input.cluster)) {
    const Overheads& o = in_.overheads;
    // One launcher starts a collective on each of its devices.
    extra_ = o.collective * (o.one_launcher ? in_.cluster.per_node : 1);
    if (!machine_) return;
    for (const Op& op : program_.roles[0].ops) {
      if (op.kind != OpKind::compute) continue;
      const int64_t times = std::max(1, program_.micro_batches / op.every);  // in a step of the optimiser
      for (const Kernel& k : program_.tasks[op.what].kernels)
        step_ += (k.read + k.written) * (k.repeat * times);
    }
  }

  Bound run() {
    bound_.plan.program = in_.program;
    for (uint32_t r = 0; r < program_.roles.size(); ++r) bind_role(r);
    number_threads();
    std::vector<uint32_t> index = number_resources();
    if (!program_.channels.empty()) {
      bound_.plan.messages = bound_messages(in_, {links_, where_, extra_, std::move(index), machine_, step_});
    }
    return std::move(bound_);
  }

 private:
  /// Makes the resources of all connections that messages may take, before the first is sent.
  void number_threads() {
    if (!links_->software().binds()) return;
    for (const Channel& c : program_.channels) {
      for (const VertexId from : where_[c.from_role]) {
        for (const VertexId to : where_[c.to_role]) {
          links_->thread_of(from, to);
          links_->thread_of(to, from);
        }
      }
    }
  }

  /// Numbers the resources that may carry bytes without gaps, in their order, so that a few devices of a
  /// large system cost no more than those of a small one. Returns the new index of each.
  std::vector<uint32_t> number_resources() {
    const std::vector<double>& capacity = links_->capacity();
    std::vector<uint8_t> used(capacity.size(), program_.channels.empty() ? 0 : 1);
    Plan& plan = bound_.plan;
    for (const Transfer& t : plan.transfers) {
      for (const Use& u : t.uses) used[u.link] = 1;
      for (const Use& u : t.settled) used[u.link] = 1;
    }
    std::vector<uint32_t> index(capacity.size());
    std::vector<uint32_t> kept;
    for (uint32_t l = 0; l < capacity.size(); ++l) {
      if (used[l] == 0) continue;
      index[l] = static_cast<uint32_t>(kept.size());
      kept.push_back(l);
      plan.capacity.push_back(capacity[l]);
    }
    for (Transfer& t : plan.transfers) {
      for (Use& u : t.uses) u.link = index[u.link];
      for (Use& u : t.settled) u.link = index[u.link];
    }
    plan.name_link = [links = links_, kept = std::move(kept)](uint32_t l) {
      return links->resource_name(kept.at(l));
    };
    return index;
  }

  bool own_transfers(const Role& role) const { return role.mesh.size() <= kOwnTransfers; }

  void bind_role(uint32_t r) {
    const Role& role = program_.roles[r];
    const auto count = static_cast<uint32_t>(role.mesh.size());
    RoleCosts costs;
    // Classes: one per instance while that is cheap, else one per device model.
    const uint32_t classes = own_transfers(role) && !in_.first_only ? count : 1;
    for (uint32_t i = 0; i < count && classes > 1; ++i) costs.class_of.push_back(i);
    for (uint32_t c = 0; c < classes; ++c) {
      costs.duration.push_back(durations(r, c));
      costs.transfer.push_back(transfers(r, c));
      if (in_.overheads.interference > 0 || (machine_ && in_.cluster.nodes > 1)) {
        const double slowed = interfere(role, costs.transfer.back(), costs.duration.back());
        if (r == 0 && c == 0) bound_.slowed_seconds = slowed;
      }
    }
    if (host_issues(r)) issue(r, classes, costs);
    if (r == 0) account(role);
    bound_.plan.roles.push_back(std::move(costs));
  }

  /// Collectives take memory bandwidth and multiprocessors from the kernels beside them: each costs a share
  /// of the time in which forward or backward runs on while it does. `queued`: what the comm lane still has
  /// to do. Returns the seconds that this adds.
  double interfere(const Role& role, const std::vector<int32_t>& transfer,
                   std::vector<Time>& duration) const {
    const auto computes = [&](const Op& op) {
      return op.kind == OpKind::compute && program_.tasks[op.what].pass != Pass::update;
    };
    double ahead = 0;  // compute that is still to come in the iteration
    for (std::size_t i = 0; i < role.ops.size(); ++i)
      ahead += computes(role.ops[i]) ? duration[i].seconds() : 0;
    double queued = 0, owed = 0, added = 0;
    for (std::size_t i = 0; i < role.ops.size(); ++i) {
      const Op& op = role.ops[i];
      if (op.kind == OpKind::collective) {
        const auto& t = bound_.plan.transfers[static_cast<std::size_t>(transfer[i])];
        const double seconds = t.alone(links_->capacity()).seconds();
        // In the mean over the iterations, of which the collective may run in every so many.
        owed += interference(op, seconds) * std::clamp(ahead - queued, 0.0, seconds) / op.every;
        queued += seconds;
      } else if (computes(op)) {
        const double seconds = duration[i].seconds();
        duration[i] += Time::from_seconds(owed);
        added += owed;
        owed = 0;
        ahead -= seconds;
        queued = std::max(0.0, queued - seconds);
      }
    }
    return added;
  }

  const KernelCost& kernel_cost(VertexId v) {
    const int32_t model = in_.system->info(v).device;
    auto found = kernels_.find(model);
    if (found == kernels_.end()) {
      found =
          kernels_.emplace(model, KernelCost(in_.system->device(v), in_.precision, in_.profile, in_.recipe))
              .first;
      const auto& notes = found->second.extrapolates();
      bound_.extrapolates.insert(bound_.extrapolates.end(), notes.begin(), notes.end());
    }
    return found->second;
  }

  /// What the device takes for the kernels, once they are issued.
  double task_seconds(const Task& task, VertexId v, bool worker) {
    if (machine_) return machine_seconds(task);
    const Overheads& o = in_.overheads;
    const auto devices = static_cast<double>(in_.cluster.devices);
    if (copies_module(task)) {
      return o.replicate.seconds() * static_cast<double>(in_.graph->layers().size()) * devices /
             in_.speeds.launch;
    }
    const KernelCost& cost = kernel_cost(v);
    double seconds = 0;
    const double stall = in_.precision == Precision::fp16 ? 1 + o.norm_stall * std::log2(devices) : 1;
    for (const Kernel& k : task.kernels) {
      seconds += cost.seconds(k) * (worker && k.kind == KernelKind::norm ? stall : 1);
    }
    if (!worker) return seconds / in_.speeds.server;
    if (issued_late(task) && in_.system->device(v).kind == Device::Kind::gpu)
      seconds = std::max(seconds, issue_seconds(task) / in_.compute_scale);
    return seconds * compute_scale() * (devices > 1 ? 1 + o.compute_slowdown : 1);
  }

  /// An update that the host issues when its gradients are summed: nothing hides that.
  bool issued_late(const Task& task) const {
    return task.pass == Pass::update && in_.recipe.host.awaits_sums && in_.cluster.devices > 1;
  }

  /// What the host takes to issue a task of a GPU; an anchor scales what one device shows of it. Where one
  /// process drives all devices, forward holds the interpreter's lock, device after device; backward has a
  /// thread per device that needs none, but what it adds to gradients of other readers takes memory from the
  /// one allocator of the process.
  double issue_seconds(const Task& task) {
    double seconds = issue_time(in_.recipe, task, in_.precision, *in_.optimizer).seconds();
    const auto driven = static_cast<double>(in_.overheads.single_process ? in_.cluster.devices : 1);
    if (task.pass == Pass::forward) seconds *= driven;
    if (issued_late(task) && in_.overheads.one_launcher) seconds *= static_cast<double>(in_.cluster.per_node);
    if (task.pass == Pass::backward_weights)
      seconds += kPlainOp * (driven - 1) * static_cast<double>(summed(task));
    return seconds * in_.compute_scale / (in_.system->host().core_speed * in_.speeds.launch);
  }

  /// Hosts issue what GPUs compute. CPUs issue to themselves, TPUs run whole graphs, and the kernels of a
  /// measured machine hold it.
  bool host_issues(uint32_t r) const {
    return !machine_ && program_.roles[r].site == Site::accelerators &&
           in_.system->device(where_[r][0]).kind == Device::Kind::gpu;
  }

  void issue(uint32_t r, uint32_t classes, RoleCosts& costs) {
    const Role& role = program_.roles[r];
    double sum = in_.cluster.devices > 1 && r == 0
                     ? in_.overheads.iteration.seconds() /
                           (static_cast<double>(program_.micro_batches) * in_.speeds.launch)
                     : 0;
    // What comes back from servers is copied into the layers' tensors, an operation each, as an update
    // without state.
    std::size_t tensors = 0;
    for (const Layer& layer : in_.graph->layers()) tensors += layer.parameters.size();
    const double each = in_.recipe.host.update[0].seconds() * in_.compute_scale /
                        (in_.system->host().core_speed * in_.speeds.launch);
    const double copying = each * static_cast<double>(tensors) /
                           static_cast<double>(std::max<std::size_t>(1, program_.buckets.size()));
    std::vector<Time> issued;
    for (const Op& op : role.ops) {
      if (op.kind == OpKind::compute && !copies_module(program_.tasks[op.what]) &&
          !issued_late(program_.tasks[op.what]))
        sum += issue_seconds(program_.tasks[op.what]) / op.every;
      if (op.kind == OpKind::recv) sum += copying / op.every;
      issued.push_back(Time::from_seconds(sum));
    }
    costs.issue.assign(classes, issued.empty() ? Time{} : issued.back());
    costs.issued.assign(classes, issued);
    // The process that drives all devices gathers their outputs before it goes on.
    costs.runs_ahead = in_.recipe.host.runs_ahead && !in_.overheads.single_process;
  }

  /// Gradients that the layers of `task` add to those of other readers: each input of a layer but the first
  /// gets one. A concat of a concat is one concat of all pieces, as frameworks are given it.
  int64_t summed(const Task& task) {
    const auto& layers = in_.graph->layers();
    if (pieces_.empty()) {
      for (const Layer& layer : layers) {
        int64_t pieces = 0;
        const bool joins = layer.type != nullptr && layer.type->name == "concat";
        for (const uint32_t in : layer.inputs) {
          const Layer& from = layers[in];
          pieces += joins && from.type == layer.type ? pieces_[in] : 1;
        }
        pieces_.push_back(pieces);
      }
    }
    int64_t sum = 0;
    for (uint32_t l = task.layer; l < task.layer + task.layers; ++l)
      sum += std::max<int64_t>(pieces_[l] - 1, 0);
    return sum;
  }

  double machine_seconds(const Task& task) {
    double seconds = machine_->op_overhead() / in_.speeds.launch;
    for (const Kernel& k : task.kernels) {
      double distance = 0;
      seconds += machine_->seconds(k, in_.cluster.devices, step_, &distance) * compute_scale();
      if (distance < KernelNeighbours::kFar) continue;
      const std::string note = fmt::format("{} {} kernels unlike any measured: priced by the fitted curve",
                                           name(k.kind), name(k.pass));
      auto& list = bound_.extrapolates;
      if (std::find(list.begin(), list.end(), note) == list.end()) list.push_back(note);
    }
    return seconds;
  }

  /// What one process takes to hand all devices their input before a step.
  Time feeding() const {
    const double rate = in_.overheads.feed.bytes_per_second;
    if (rate == 0) return {};
    const auto samples = static_cast<double>(program_.samples_per_iteration * in_.cluster.devices);
    return Time::from_seconds(samples * static_cast<double>(in_.graph->sample().decoded.n) / rate);
  }

  std::vector<Time> durations(uint32_t r, uint32_t instance) {
    const Role& role = program_.roles[r];
    const VertexId v = where_[r][instance];
    const auto key = std::make_pair(r, in_.system->info(v).device);
    const auto known = durations_.find(key);
    if (known != durations_.end()) return known->second;
    std::vector<Time> out(role.ops.size());
    bool first = r == 0 && in_.cluster.devices > 1;
    for (std::size_t i = 0; i < role.ops.size(); ++i) {
      const Op& op = role.ops[i];
      if (op.kind != OpKind::compute) continue;
      const bool worker = role.site == Site::accelerators;
      out[i] = Time::from_seconds(task_seconds(program_.tasks[op.what], v, worker));
      if (copies_module(program_.tasks[op.what])) continue;
      if (first)
        out[i] += scaled(
            feeding() + (host_issues(r) ? Time{} : Time{in_.overheads.iteration.ps / program_.micro_batches}),
            1 / in_.speeds.launch);
      first = false;
    }
    return durations_.emplace(key, std::move(out)).first->second;
  }

  std::vector<int32_t> transfers(uint32_t r, uint32_t instance) {
    const Role& role = program_.roles[r];
    std::vector<int32_t> out(role.ops.size(), -1);
    std::size_t last = 0;
    for (std::size_t i = 0; i < role.ops.size(); ++i) {
      if (role.ops[i].kind == OpKind::collective) last = i;
    }
    for (std::size_t i = 0; i < role.ops.size(); ++i) {
      const Op& op = role.ops[i];
      if (op.kind == OpKind::copy) out[i] = copy_transfer(r, instance, op);
      if (op.kind == OpKind::collective) out[i] = collective_transfer(r, instance, op, i == last);
    }
    return out;
  }

  double compute_scale() const { return in_.compute_scale / in_.speeds.compute; }

  /// What a coordinator adds to a reduction. Lists: rank 0 reads the size and then the list of every rank,
  /// one after the other. Bits: two reductions along a tree of the nodes, for all gradients at once, so only
  /// the last ones wait for them; as they do for half a cycle in the mean, until it looks.
  Time agreement(bool last) const {
    using Agreement = Overheads::Agreement;
    const Overheads& o = in_.overheads;
    const double wait = last ? o.cycle.seconds() / 2 : 0;
    if (machine_ || in_.cluster.nodes == 1) return Time::from_seconds(wait);
    const auto tree = static_cast<double>(std::bit_width(static_cast<uint64_t>(in_.cluster.nodes - 1)));
    const double messages = o.agreement == Agreement::lists  ? 2 * static_cast<double>(in_.cluster.devices)
                            : o.agreement == Agreement::bits ? (last ? 4 * tree : 0)
                                                             : 0;
    return Time::from_seconds(wait + messages * control_message(*in_.system));
  }

  int32_t add(Transfer t) {
    t.latency = scaled(t.latency, 1 / in_.speeds.latency);
    bound_.plan.transfers.push_back(std::move(t));
    return static_cast<int32_t>(bound_.plan.transfers.size()) - 1;
  }

  /// Instances of the first node; transfers of all nodes are taken to be like theirs.
  uint32_t first_node(uint32_t r) const {
    const auto& where = where_[r];
    const int64_t node = in_.system->node_of(where[0]);
    const auto other =
        std::find_if(where.begin(), where.end(), [&](VertexId v) { return in_.system->node_of(v) != node; });
    return static_cast<uint32_t>(other - where.begin());
  }

  /// One transfer for `all`, given those of the first node, which happen together: each resource goes in
  /// equal shares to all that use it. Shared storage serves every node.
  Transfer settle(const std::vector<Transfer>& together, int64_t all) const {
    std::map<uint32_t, double> load;
    for (const Transfer& t : together) {
      for (const Use& u : t.uses) load[u.link] += static_cast<double>(u.weight);
    }
    Transfer out = together.front();
    out.uses.clear();
    for (const Transfer& t : together) {
      out.latency = std::max(out.latency, t.latency);
      if (t.cap > 0) out.cap = out.cap == 0 ? t.cap : std::min(out.cap, t.cap);
    }
    std::vector<std::pair<double, Use>> busy;
    for (auto& [link, weight] : load) {
      const bool global = link >= in_.system->link_count() && links_->resource_name(link) == "shared storage";
      if (global) weight *= static_cast<double>(all) / static_cast<double>(together.size());
      const double rate = links_->capacity()[link] / weight;
      out.cap = out.cap == 0 ? rate : std::min(out.cap, rate);
      busy.push_back({rate, {link, static_cast<float>(weight / static_cast<double>(all))}});
    }
    std::stable_sort(busy.begin(), busy.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    if (busy.size() > kSettledLinks) busy.resize(kSettledLinks);
    for (const auto& [rate, use] : busy) out.settled.push_back(use);
    return out;
  }

  int32_t copy_transfer(uint32_t r, uint32_t instance, const Op& op) {
    const auto key = std::make_tuple(r, instance, op.what, op.bytes.n);
    const auto known = copies_.find(key);
    if (known != copies_.end()) return known->second;
    const Role& role = program_.roles[r];
    if (own_transfers(role)) return copies_[key] = add(copy_of(where_[r][instance], op));
    std::vector<Transfer> together;
    for (uint32_t i = 0; i < first_node(r); ++i) together.push_back(copy_of(where_[r][i], op));
    return copies_[key] = add(settle(together, role.mesh.size()));
  }

  Transfer copy_of(VertexId v, const Op& op) {
    const Copy& copy = program_.copies[op.what];
    if (copy.kind == CopyKind::input) {
      const Sample& s = in_.graph->sample();
      return links_->input(v, copy.samples, s.stored, s.decoded, s.decode_seconds);
    }
    const VertexId host = in_.system->host_of(v);
    const bool in = copy.kind == CopyKind::host_to_device;
    return links_->message(in ? host : v, in ? v : host, op.bytes);
  }

  int32_t collective_transfer(uint32_t r, uint32_t instance, const Op& op, bool last) {
    const Role& role = program_.roles[r];
    const Collective& c = program_.collectives[op.what];
    const auto members = group_of(role.mesh, c.axes, instance);
    const auto key = std::make_tuple(r, members.front(), op.what, op.bytes.n, last);
    const auto known = collectives_.find(key);
    if (known != collectives_.end()) return known->second;
    const auto priced = [&](const std::vector<uint32_t>& group) {
      Transfer t = collective_of(r, group, op);
      t.latency += agreement(last);
      return t;
    };
    if (own_transfers(role)) return collectives_[key] = add(priced(members));
    std::vector<std::vector<uint32_t>> groups{members};
    for (uint32_t i = 0; i < first_node(r); ++i) {
      const bool met = std::any_of(groups.begin(), groups.end(), [&](const std::vector<uint32_t>& g) {
        return std::binary_search(g.begin(), g.end(), i);
      });
      if (!met) groups.push_back(group_of(role.mesh, c.axes, i));
    }
    std::vector<Transfer> together;
    for (const auto& g : groups) together.push_back(priced(g));
    const int64_t all = role.mesh.size() / static_cast<int64_t>(members.size());
    return collectives_[key] = add(settle(together, all));
  }

  Transfer collective_of(uint32_t r, const std::vector<uint32_t>& members, const Op& op) {
    const Collective& c = program_.collectives[op.what];
    std::vector<VertexId> at;
    at.reserve(members.size());
    for (const uint32_t m : members) at.push_back(where_[r][m]);
    std::rotate(at.begin(), at.begin() + c.root, at.end());
    if (machine_ && (in_.cluster.nodes == 1 || machine_->wired())) return on_machine(at, op);
    Transfer t = links_->collective(c.kind, c.algorithm, op.bytes, at);
    t.latency += extra_;
    const double membw = in_.system->device(at[0]).memory_bandwidth.bytes_per_second;
    t.latency += Time::from_seconds(in_.overheads.copies_per_byte * static_cast<double>(op.bytes.n) / membw);
    return t;
  }

  /// On a machine that was measured, whose nodes it may play itself.
  Transfer on_machine(const std::vector<VertexId>& at, const Op& op) {
    std::vector<int64_t> nodes;
    for (const VertexId v : at) nodes.push_back(in_.system->node_of(v));
    const auto other = std::find_if(at.begin(), at.end(),
                                    [&](VertexId v) { return in_.system->node_of(v) != nodes.front(); });
    Transfer link;
    if (other != at.end()) link = links_->message(at.front(), *other, op.bytes);
    const MachineCollective cost =
        machine_collective(*machine_, program_.collectives[op.what], op.bytes, nodes,
                           other == at.end() ? 0 : link.rate_alone(links_->capacity()));
    wire_cpu_[{op.what, op.bytes.n}] = cost.cpu;
    Transfer t;
    t.latency = Time::from_seconds(cost.seconds + 2 * machine_->wake()) + link.latency * cost.messages;
    return t;
  }

  /// Share of a collective's time that it takes from the kernels beside it.
  double interference(const Op& op, double seconds) const {
    if (!machine_) return in_.overheads.interference;
    if (in_.cluster.nodes == 1 || seconds <= 0) return 0;
    // Workers that have no second core for their messages give up theirs.
    const auto workers = static_cast<double>(in_.cluster.devices),
               cores = static_cast<double>(machine_->cores());
    const double shared = std::clamp((2 * workers - cores) / workers, 0.0, 1.0);
    const auto cpu = wire_cpu_.find({op.what, op.bytes.n});
    return cpu == wire_cpu_.end() ? 0 : std::min(1.0, shared * cpu->second / seconds);
  }

  void account(const Role& role) {
    const VertexId v = where_[0][0];
    const KernelCost* cost = machine_ ? nullptr : &kernel_cost(v);
    double step = 0, far = 0;
    for (const Op& op : role.ops) {
      if (op.kind != OpKind::compute) continue;
      for (const Kernel& k : program_.tasks[op.what].kernels) {
        double distance = 0;
        const double seconds =
            (machine_ ? machine_->seconds(k, in_.cluster.devices, step_, &distance) : cost->seconds(k)) *
            compute_scale() / op.every;
        bound_.by_kind[static_cast<int>(k.kind)][static_cast<int>(k.pass)] += seconds;
        step += seconds;
        far += seconds * std::min(distance, KernelNeighbours::kFar);
      }
    }
    bound_.compute_error = machine_ ? machine_->error(step > 0 ? far / step : 0) : cost->relative_error();
    if (machine_) bound_.several_error = machine_->error_of_several();
    if (machine_ && !machine_->busy().empty())
      bound_.extrapolates.push_back("the profile was measured on a busy machine: " + machine_->busy());
    if (machine_) bound_.measured = machine_->disturbance(in_.cluster.devices, step, in_lock_step(program_));
  }

  const BindInput& in_;
  const Program& program_;
  std::shared_ptr<const MachineProfile> machine_;  ///< null: costs come from the system's description
  std::shared_ptr<LinkCost> links_;
  std::vector<std::vector<VertexId>> where_;
  Bytes step_;  ///< what a worker's kernels move in one
  Time extra_;
  Bound bound_;
  std::map<int32_t, KernelCost> kernels_;
  std::vector<int64_t> pieces_;  ///< per layer: how many gradients its backward makes
  std::map<std::pair<uint32_t, int32_t>, std::vector<Time>> durations_;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t, int64_t>, int32_t> copies_;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t, int64_t, bool>, int32_t> collectives_;
  /// Over played nodes: processor seconds of a rank, by collective and bytes.
  std::map<std::pair<uint32_t, int64_t>, double> wire_cpu_;
};

}  // namespace

Bound bind(const BindInput& input) { return Binder(input).run(); }

}  // namespace tandem::sim
