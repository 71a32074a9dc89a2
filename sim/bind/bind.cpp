// SPDX-License-Identifier: Apache-2.0
#include "sim/bind/bind.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <tuple>

#include "sim/bind/bound_messages.h"
#include "sim/bound/alone_times.h"
#include "sim/bound/placement.h"
#include "sim/cost/make_costs.h"

namespace tandem::sim {

namespace {

/// Devices above which the first node of each kind stands for all and every instance no longer gets transfers
/// of its own: what symmetric instances share is then divided between them in advance, which is exact for
/// transfers that they make in lock step. Ops of different lanes are taken not to slow each other. The same
/// of a split model with more than CostInput::own_executions.
constexpr int64_t kOwnTransfers = 512;
/// Of a resolved transfer this many of the busiest links are accounted for, and all of the node that it is
/// resolved for: what is busy there is busy on all nodes of its kind.
constexpr std::size_t kResolvedLinks = 64;

/// Finds which instances are equal, has one of each kind priced, and numbers what they use.
class Binder {
 public:
  Binder(const CostInput& input, Priced priced)
      : in_(input),
        priced_(priced),
        program_(*input.program),
        costs_(make_costs(input)),
        where_(place(program_, *input.system, input.cluster)) {}

  Bound run() {
    bound_.plan.program = in_.program;
    for (uint32_t r = 0; r < program_.roles.size(); ++r) bind_role(r);
    for (const Channel& c : program_.channels) costs_->connect(where_[c.from_role], where_[c.to_role]);
    number_resources();
    if (asks_) bound_.plan.messages = bound_messages(in_.program, costs_, where_);
    bound_.incast = costs_->incast().worst();
    bound_.extrapolates = costs_->extrapolates();
    bound_.extrapolates.insert(bound_.extrapolates.end(), costs_->measured_notes().begin(),
                               costs_->measured_notes().end());
    return std::move(bound_);
  }

 private:
  /// Numbers the resources that may carry bytes without gaps, in their order, so that a few devices of a
  /// large system cost no more than those of a small one. With messages all of
  /// them may, and keep their numbers.
  void number_resources() {
    const std::vector<double>& capacity = costs_->capacity();
    std::vector<uint8_t> used(capacity.size(), asks_ ? 1 : 0);
    BoundProgram& plan = bound_.plan;
    for (const Transfer& t : plan.transfers) {
      for (const Use& u : t.uses) used[u.link] = 1;
      for (const Use& u : t.resolved) used[u.link] = 1;
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
      for (Use& u : t.resolved) u.link = index[u.link];
    }
    plan.name_link = [costs = costs_, kept = std::move(kept)](uint32_t l) {
      return costs->resource_name(kept.at(l));
    };
  }

  double stages() const { return static_cast<double>(working_roles(program_)); }
  /// Sums inside shared layers, for which the next op waits, overlap no kernel.
  static bool beside(const Op& op) { return op.kind == OpKind::collective && !of_layers(op.payload); }

  bool own_transfers(const Role& role) const {
    return role.mesh.size() <= kOwnTransfers && (!split_ || executions_ <= in_.own_executions);
  }

  /// What instances have in common whose ops take equal times: the kind of node, the device's model and the
  /// samples.
  using Sort = std::tuple<std::size_t, int32_t, int64_t>;
  Sort sort_of(uint32_t r, uint32_t instance) const {
    const VertexId v = where_[r][instance];
    return {in_.system->kind_of(v), in_.system->info(v).device, samples_of(r, instance)};
  }

  /// Of one pass; 0 where they are the job's.
  int64_t samples_of(uint32_t r, uint32_t instance) const {
    const bool own = in_.batches != nullptr && program_.roles[r].works();
    return own ? in_.batches->samples.at(instance) : 0;
  }

  /// The program of workers with as many samples.
  const Program& program_of(uint32_t r, uint32_t instance) const {
    const int64_t samples = samples_of(r, instance);
    return samples == 0 ? program_ : *in_.batches->programs.at(samples);
  }

  /// The first instance of each class: one for every instance while that is cheap, else one for every kind.
  std::vector<uint32_t> classes_of(uint32_t r, RoleCosts& costs) const {
    const Role& role = program_.roles[r];
    const auto count = priced_ == Priced::first ? 1U : static_cast<uint32_t>(role.mesh.size());
    const bool own = own_transfers(role);
    std::map<Sort, uint32_t> known;
    std::vector<uint32_t> first;
    for (uint32_t i = 0; i < count; ++i) {
      const auto next = static_cast<uint32_t>(first.size());
      const uint32_t c = own ? next : known.emplace(sort_of(r, i), next).first->second;
      if (c == next) first.push_back(i);
      costs.class_of.push_back(c);
    }
    if (first.size() == 1) costs.class_of.clear();
    return first;
  }

  void bind_role(uint32_t r) {
    const Role& role = program_.roles[r];
    RoleCosts costs;
    const std::vector<uint32_t> classes = classes_of(r, costs);
    for (const uint32_t i : classes) {
      costs.duration.push_back(known_durations(r, i));
      costs.transfer.push_back(transfers(r, i));
      if (!costs_->interferes()) continue;
      const double slowed = interfere(r, i, costs.transfer.back(), costs.duration.back());
      if (role.works() && i == 0) bound_.slowed_seconds += slowed / stages();
    }
    bind_host(r, classes, costs);
    costs.on_devices = role.on_channel >= 0 && role.site == Site::accelerators &&
                       in_.system->device(where_[r][0]).kind == Device::Kind::gpu;
    if (role.works()) account(r, classes);
    bound_.plan.roles.push_back(std::move(costs));
  }

  void bind_host(uint32_t r, const std::vector<uint32_t>& classes, RoleCosts& costs) {
    std::map<Sort, HostTimes> known;
    for (const uint32_t i : classes) {
      auto at = known.find(sort_of(r, i));
      if (at == known.end()) at = known.emplace(sort_of(r, i), costs_->host(r, where_[r][i])).first;
      if (at->second.issued.empty()) continue;
      costs.issue.push_back(at->second.issued.back());
      costs.issued.push_back(at->second.issued);
    }
    const HostTimes& host = known.at(sort_of(r, 0));
    costs.runs_ahead = host.runs_ahead;
    costs.awaited = host.awaited;
    costs.awaits_sends = host.awaits_sends;
    costs.awaits_messages = host.awaits_messages && !program_.grid.axes.empty();
  }

  /// Collectives and concurrent kernels slow each other (sim/cost/overlap.h): from where the list has a
  /// collective, later forward and backward ops overlap it, if the comm lane has come to it.
  /// Returns the seconds that this adds to kernels.
  double interfere(uint32_t r, uint32_t instance, std::vector<int32_t>& transfer,
                   std::vector<Time>& duration) {
    const Role& role = program_.roles[r];
    const VertexId v = where_[r][instance];
    std::deque<Queued> queue;
    double added = 0;
    each_stored(role, [&](const Op& op, uint32_t i) {
      if (op.kind == OpKind::collective && (program_.grid.axes.empty() || beside(op))) {
        const double seconds = alone_.of(transfer[i]).seconds();
        if (seconds > 0) queue.push_back({&op, i, seconds, seconds});
      } else if (launched(op) && program_.tasks[op.what].pass != Pass::update) {
        const double slower = run_beside(op, v, duration[i].seconds(), transfer, queue);
        duration[i] += Time::from_seconds(slower);
        added += slower;
      }
    });
    while (!queue.empty()) end_first(queue, transfer);
    return added;
  }

  /// A collective that the comm lane still has to do.
  struct Queued {
    const Op* op;
    uint32_t index;
    double alone, left;    ///< seconds when alone
    double stretched = 0;  ///< seconds that concurrent kernels have cost it
  };

  /// Runs `seconds` of kernels during the first collectives of the queue. Returns what that costs the
  /// kernels, averaged over the iterations, not all of which have the collective.
  double run_beside(const Op& op, VertexId v, double seconds, std::vector<int32_t>& transfer,
                    std::deque<Queued>& queue) {
    double slower = 0;
    while (seconds > 0 && !queue.empty()) {
      Queued& first = queue.front();
      const Transfer& t = bound_.plan.transfers[static_cast<std::size_t>(transfer[first.index])];
      const Beside both = costs_->beside(*first.op, t, first.alone, program_.tasks[op.what], v);
      const double time = std::min(seconds * both.kernel, first.left * both.collective);
      const double done = time / both.collective;
      slower += (time * (1 - 1 / both.kernel) + done * both.lost) / first.op->every;
      first.stretched += time - done;
      first.left -= done;
      seconds -= time / both.kernel;
      if (first.left > 1e-12) break;
      end_first(queue, transfer);
    }
    return slower;
  }

  /// What kernels have cost it, a collective takes longer; its links have no more to carry.
  void end_first(std::deque<Queued>& queue, std::vector<int32_t>& transfer) {
    const Queued& first = queue.front();
    const Time longer = Time::from_seconds(first.stretched);
    if (longer.ps > 0) {
      const auto [at, fresh] = stretched_.try_emplace({transfer[first.index], longer.ps}, 0);
      if (fresh) {
        Transfer t = bound_.plan.transfers[static_cast<std::size_t>(transfer[first.index])];
        t.latency += longer;
        at->second = add(std::move(t));
      }
      transfer[first.index] = at->second;
    }
    queue.pop_front();
  }

  /// f(op as it is stored, index) for every op in order.
  template <typename F>
  static void each_stored(const Role& role, F f) {
    for (const OpList::Part& part : role.ops.parts()) {
      for (uint32_t i = 0; i < part.count; ++i) f(role.ops.stored(part, i), part.first + i);
    }
  }

  uint32_t last_collective(const Role& role) const {
    const auto& parts = role.ops.parts();
    for (std::size_t k = parts.size(); k-- > 0;) {
      for (uint32_t i = parts[k].count; i-- > 0;) {
        const Op& op = role.ops.stored(parts[k], i);
        if (op.kind == OpKind::collective && (!split_ || op.payload == Payload::gradients))
          return parts[k].first + i;
      }
    }
    return 0;
  }

  /// Instances of one kind take equal times.
  const std::vector<Time>& known_durations(uint32_t r, uint32_t instance) {
    const auto key = std::make_pair(r, sort_of(r, instance));
    const auto known = durations_.find(key);
    return known != durations_.end() ? known->second
                                     : durations_.emplace(key, durations(r, instance)).first->second;
  }

  std::vector<Time> durations(uint32_t r, uint32_t instance) {
    const Program& own = program_of(r, instance);
    const Role& role = own.roles[r];
    const VertexId v = where_[r][instance];
    std::vector<Time> out(role.ops.size());
    bool first = role.works() && in_.cluster.devices > 1;
    std::vector<std::optional<Time>> tasks(own.tasks.size());
    each_stored(role, [&](const Op& op, uint32_t i) {
      if (op.kind != OpKind::compute) return;
      const Task& task = own.tasks[op.what];
      auto& time = tasks[op.what];
      if (!time) time = launched(op) ? costs_->task(task, v, role.site) : costs_->host_task(task, v);
      out[i] = *time;
      if (!first || copies_module(task) || !launched(op)) return;
      out[i] += costs_->start(where_[r][0], role.site);
      first = false;
    });
    return out;
  }

  std::vector<int32_t> transfers(uint32_t r, uint32_t instance) {
    const Role& role = program_of(r, instance).roles[r];
    std::vector<int32_t> out(role.ops.size(), -1);
    const uint32_t last = last_collective(role);
    std::vector<std::vector<int32_t>> known(role.ops.routines().size());
    for (const OpList::Part& part : role.ops.parts()) {
      // Calls of a routine load the same, but for the last collective.
      const bool holds_last = last >= part.first && last < part.end();
      auto* same = part.routine < 0 || holds_last ? nullptr : &known[static_cast<std::size_t>(part.routine)];
      if (same != nullptr && !same->empty()) {
        std::copy(same->begin(), same->end(), out.begin() + part.first);
        continue;
      }
      for (uint32_t i = part.first; i < part.end(); ++i) {
        const Op& op = role.ops.stored(part, i - part.first);
        if (op.kind == OpKind::copy) out[i] = copy_transfer(r, instance, op);
        if (op.kind == OpKind::collective)
          out[i] = collective_transfer(r, instance, op,
                                       i == last || (!split_ && op.payload == Payload::exchanged));
        if (op.kind == OpKind::send && is_static_) out[i] = message_transfer(r, instance, op);
      }
      if (same != nullptr) same->assign(out.begin() + part.first, out.begin() + part.end());
    }
    return out;
  }

  int32_t add(Transfer t) {
    bound_.plan.transfers.push_back(std::move(t));
    return static_cast<int32_t>(bound_.plan.transfers.size()) - 1;
  }

  /// The instances on the node of `instance`, first and one past the last; transfers of all nodes of its kind
  /// are taken to be like theirs.
  std::pair<uint32_t, uint32_t> node_around(uint32_t r, uint32_t instance) const {
    const auto& where = where_[r];
    const auto same = [&](uint32_t i) {
      return in_.system->node_of(where[i]) == in_.system->node_of(where[instance]);
    };
    uint32_t begin = instance, end = instance + 1;
    while (begin > 0 && same(begin - 1)) --begin;
    while (end < where.size() && same(end)) ++end;
    return {begin, end};
  }

  /// One transfer for `all`, given those of the node of `v`, which happen together: each resource goes in
  /// equal shares to all that use it. Shared storage serves every node.
  Transfer resolve(const std::vector<Transfer>& together, int64_t all, VertexId v) const {
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
      const bool global =
          link >= in_.system->link_count() && costs_->resource_name(link).starts_with("shared storage");
      if (global) weight *= static_cast<double>(all) / static_cast<double>(together.size());
      const double rate = costs_->capacity()[link] / weight;
      out.cap = out.cap == 0 ? rate : std::min(out.cap, rate);
      busy.push_back({rate, {link, static_cast<float>(weight / static_cast<double>(all))}});
    }
    std::stable_sort(busy.begin(), busy.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    const int64_t node = in_.system->node_of(v);
    for (std::size_t i = 0; i < busy.size(); ++i) {
      const Use& use = busy[i].second;
      const bool own = use.link < in_.system->link_count() &&
                       in_.system->nodes_below(use.link) == std::pair{node, node + 1};
      if (own || i < kResolvedLinks) out.resolved.push_back(use);
    }
    return out;
  }

  int32_t copy_transfer(uint32_t r, uint32_t instance, const Op& op) {
    const auto key = std::make_tuple(r, instance, op.what, op.bytes.n);
    const auto known = copies_.find(key);
    if (known != copies_.end()) return known->second;
    const Role& role = program_.roles[r];
    const Copy& copy = program_of(r, instance).copies[op.what];
    if (own_transfers(role)) return copies_[key] = add(costs_->copy(op, copy, where_[r][instance]));
    std::vector<Transfer> together;
    const auto [begin, end] = node_around(r, instance);
    for (uint32_t i = begin; i < end; ++i) together.push_back(costs_->copy(op, copy, where_[r][i]));
    return copies_[key] = add(resolve(together, role.mesh.size(), where_[r][instance]));
  }

  /// A message to the same instance of another role.
  int32_t message_transfer(uint32_t r, uint32_t instance, const Op& op) {
    const auto key = std::make_tuple(r, instance, op.what, op.bytes.n);
    const auto known = sends_.find(key);
    if (known != sends_.end()) return known->second;
    const Channel& c = program_.channels[op.what];
    const auto between = [&](uint32_t i) {
      return costs_->message(c, where_[r][i], where_[c.to_role][i], op.bytes);
    };
    const Role& role = program_.roles[r];
    if (own_transfers(role)) return sends_[key] = add(between(instance));
    std::vector<Transfer> together;
    const auto [begin, end] = node_around(r, instance);
    for (uint32_t i = begin; i < end; ++i) together.push_back(between(i));
    return sends_[key] = add(resolve(together, role.mesh.size(), where_[r][instance]));
  }

  int32_t collective_transfer(uint32_t r, uint32_t instance, const Op& op, bool awaited) {
    const Role& role = program_.roles[r];
    const Collective& c = program_.collectives[op.what];
    const auto key =
        std::make_tuple(r, first_of_group(role.mesh, c.axes, instance), op.what, op.bytes.n, awaited);
    const auto known = collectives_.find(key);
    if (known != collectives_.end()) return known->second;
    const auto members = group_of(role.mesh, c.axes, instance);
    const auto priced = [&](const std::vector<uint32_t>& group) {
      return collective_of(r, group, op, awaited);
    };
    if (own_transfers(role)) return collectives_[key] = add(priced(members));
    std::vector<std::vector<uint32_t>> groups{members};
    const auto [begin, end] = node_around(r, instance);
    for (uint32_t i = begin; i < end; ++i) {
      const bool met = std::any_of(groups.begin(), groups.end(), [&](const std::vector<uint32_t>& g) {
        return std::binary_search(g.begin(), g.end(), i);
      });
      if (!met) groups.push_back(group_of(role.mesh, c.axes, i));
    }
    std::vector<Transfer> together;
    for (const auto& g : groups) together.push_back(priced(g));
    const int64_t all = role.mesh.size() / static_cast<int64_t>(members.size());
    return collectives_[key] = add(resolve(together, all, where_[r][instance]));
  }

  Transfer collective_of(uint32_t r, const std::vector<uint32_t>& members, const Op& op, bool awaited) {
    std::vector<VertexId> at;
    at.reserve(members.size());
    for (const uint32_t m : members) at.push_back(where_[r][m]);
    std::rotate(at.begin(), at.begin() + program_.collectives[op.what].root, at.end());
    return costs_->collective(op, at, awaited);
  }

  /// Of the first instance; the error is that of the class with the largest.
  void account(uint32_t r, const std::vector<uint32_t>& classes) {
    const VertexId v = where_[r][0];
    const Program& own = program_of(r, 0);
    std::map<uint32_t, double> runs;  // of a task in an iteration
    own.roles[r].ops.each_distinct([&](const Op& op, int64_t times) {
      if (launched(op)) runs[op.what] += static_cast<double>(times) / op.every;
    });
    for (const auto& [task, count] : runs) {
      for (const Kernel& k : own.tasks[task].kernels) {
        const KernelTime time = costs_->kernel(k, v);
        const double seconds = time.seconds * count / stages();
        bound_.by_kind[static_cast<int>(k.kind)][static_cast<int>(k.pass)] += seconds;
        step_ += seconds;
        far_ += seconds * time.distance;
      }
    }
    const double far = step_ > 0 ? far_ / step_ : 0;
    bound_.error = costs_->error(v, far);
    std::set<int32_t> models;
    for (const uint32_t i : classes) {
      if (!models.insert(in_.system->info(where_[r][i]).device).second) continue;
      const CostError error = costs_->error(where_[r][i], far);
      bound_.error.compute = std::max(bound_.error.compute, error.compute);
      if (in_.system->device(where_[r][i]).power_share < 1)
        bound_.limited_speeds[in_.system->info(where_[r][i]).device] = error.limited;
    }
    bound_.measured = costs_->disturbance(step_);
  }

  const CostInput& in_;
  Priced priced_;
  const Program& program_;
  const bool split_ = !program_.grid.axes.empty();  ///< over a grid: a coordinator decides on its gradients
  const int64_t executions_ = executions(program_);
  const bool is_static_ = is_static(program_);
  /// Messages are priced when they are sent: not those that were resolved beforehand.
  const bool asks_ = !program_.channels.empty() &&
                     !(is_static_ && std::any_of(program_.roles.begin(), program_.roles.end(),
                                                 [&](const Role& role) { return !own_transfers(role); }));
  std::shared_ptr<Costs> costs_;
  std::vector<std::vector<VertexId>> where_;
  Bound bound_;
  AloneTimes alone_{bound_.plan.transfers, costs_->capacity()};
  std::map<std::pair<uint32_t, Sort>, std::vector<Time>> durations_;
  std::map<std::pair<int32_t, int64_t>, int32_t> stretched_;  ///< transfers, by transfer and picoseconds
  double step_ = 0,
         far_ = 0;  ///< seconds of a step's kernels, the mean of the stages, and times their distance
  std::map<std::tuple<uint32_t, uint32_t, uint32_t, int64_t>, int32_t> copies_, sends_;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t, int64_t, bool>, int32_t> collectives_;
};

}  // namespace

Bound bind(const CostInput& input, Priced priced) { return Binder(input, priced).run(); }

}  // namespace tandem::sim
