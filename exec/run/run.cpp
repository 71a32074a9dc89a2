// SPDX-License-Identifier: Apache-2.0
#include "exec/run/run.h"

#include "exec/run/learning_rate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <thread>

#include "base/random.h"
#include "exec/comm/scheduled_group.h"
#include "exec/run/memory.h"

namespace tandem::exec {

namespace {

/// Of the program, so that so many steps are made.
int32_t all_iterations(const Execution& e, const Program& program) {
  const int64_t all = checked_mul(e.iterations, program.micro_batches, "the iterations to run");
  if (all > INT32_MAX)
    throw InputError(fmt::format("{} iterations of {} micro-batches: at most {} micro-batches are run",
                                 e.iterations, program.micro_batches, INT32_MAX));
  return static_cast<int32_t>(all);
}

/// Begin of the c-th of n even cuts; the same as a collective's chunks.
int64_t cut(int64_t elements, int64_t n, int64_t c) { return elements / n * c + std::min(elements % n, c); }

/// Start values as LearnedTensor says, drawn by counter: the same for every worker and thread count.
std::vector<float> start_values(const ExecutionGraph& lowered, const Execution& e) {
  std::vector<float> out(static_cast<std::size_t>(lowered.parameters()));
  for (const LearnedTensor& l : lowered.learned()) {
    const Tensor& t = lowered.tensors()[l.parameter];
    for (int64_t i = 0; i < t.elements; ++i) {
      const double u = 2 * to_unit(draw_bits(e.seed, l.layer, l.index, static_cast<uint64_t>(i))) - 1;
      out[static_cast<std::size_t>(t.offset + i)] = l.constant + l.bound * static_cast<float>(u);
    }
  }
  if (e.integer_gradients) std::fill(out.begin(), out.end(), 0.0F);
  return out;
}

}  // namespace

Run::Run(const Execution& e, const Keep& k)
    : execution_(e),
      keep_(k),
      program_(make_program(e)),
      execution_graph_(*e.job.graph, e.job.batch, true, e.job.precision),
      expected_(all_iterations(e, program_)),
      micro_batches_(program_.micro_batches),
      warmup_(e.warmup * program_.micro_batches) {
  workers_ = static_cast<uint32_t>(program_.roles[0].mesh.size());
  check_executable();
  here_ = workers_ / static_cast<uint32_t>(ranks().size);
  first_here_ = here_ * static_cast<uint32_t>(ranks().rank);
  if (workers_ == 1) here_ = 1, first_here_ = 0;
  check_memory(e, k, program_, execution_graph_, here_);
  make_iterations();
  check_route();
  // Spinning only pays where the thread that is waited for runs at the same time.
  spins_ = here_ <= std::thread::hardware_concurrency() ? 2000 : 20;
  start_ = start_values(execution_graph_, e);
  start_state_.resize(start_.size() * static_cast<std::size_t>(e.job.optimizer->state));
  if (e.start != nullptr) {
    start_ = e.start->parameters;
    start_state_ = e.start->state;
    first_iteration_ = e.start->iteration * micro_batches_;
    std::size_t buffers = 0;
    for (const Tensor& t : execution_graph_.tensors())
      buffers += t.kind == TensorKind::buffer ? static_cast<std::size_t>(t.elements) : 0;
    if (e.start->buffers.size() != buffers)
      throw InputError("the checkpoint holds other buffers than the model");
  }
  make_groups();
  make_store();
}

/// Groups of free-running workers that meet in collectives; else, and where a group has members in other
/// processes, everybody together.
void Run::make_iterations() {
  counted_in_.assign(here_, 0);
  uint32_t groups = 1;
  if (free_running(program_)) {
    Collective meeting;
    meeting.axes = meeting_axes(program_);
    std::map<uint32_t, uint32_t> members;
    for (uint32_t i = 0; i < here_; ++i) ++members[member(meeting, first_here_ + i).group];
    const bool own = std::all_of(members.begin(), members.end(), [&](const auto& group) {
      return group.second == member(meeting, first_here_).ranks;
    });
    for (uint32_t i = 0; i < here_ && own; ++i) {
      const auto at = members.find(member(meeting, first_here_ + i).group);
      counted_in_[i] = static_cast<uint32_t>(std::distance(members.begin(), at));
    }
    if (own) groups = static_cast<uint32_t>(members.size());
  }
  iterations_ = std::make_unique<Iterations>(execution_.iterations, micro_batches_, groups, abort_);
}

void Run::check_executable() const {
  const auto refuse = [&](const std::string& why) {
    throw InputError(fmt::format("{} cannot be executed: {}", execution_.job.scheme->name, why));
  };
  if (execution_.job.scheme->scheme->name == "one-weird-trick")
    refuse("linear layers split over the devices are only simulated");
  if (execution_.rate.by_staleness && program_.stores.empty() && workers_ > 1)
    refuse(
        "a rate divided by staleness needs servers that count versions: parameter-server with mode=async, "
        "ssp or softsync");
  int64_t parameters = 0;
  for (const Bucket& b : program_.buckets) parameters += b.elements;
  TANDEM_CHECK(parameters == execution_graph_.parameters());
  for (const Op& op : program_.roles[0].ops) {
    if (op.kind == OpKind::compute && op.payload == Payload::gradients)
      refuse("gradients are not cast for the way (compression=none is executed)");
    if (op.kind != OpKind::collective) continue;
    const int64_t elements = op.key < program_.buckets.size() ? program_.buckets[op.key].elements : 0;
    if (op.payload == Payload::gradients && op.bytes.n != 4 * elements)
      refuse("gradients travel as fp32 (gradients=fp32 is executed)");
    const Collective& c = program_.collectives[op.what];
    const bool half = c.kind == CollKind::all_gather && member(c, 0).ranks == workers_ &&
                      element_bytes(execution_.job.precision) == 2 && op.bytes.n == 2 * elements;
    if (op.payload == Payload::parameters && op.bytes.n != 4 * elements && !half)
      refuse("parameters travel as fp32, or are gathered from all workers in 2 bytes");
  }
  for (const Channel& c : program_.channels) {
    if (c.address != Address::shards && c.address != Address::reply)
      refuse("messages between peers are only simulated");
  }
  for (uint32_t layer = 0; layer < execution_.job.graph->layers().size(); ++layer) {
    for (const auto* calls : {&execution_graph_.forward(layer), &execution_graph_.backward(layer)}) {
      for (const Call& c : *calls) {
        if (execution_.backend->supports(c, execution_.job.precision)) continue;
        throw InputError(fmt::format("backend {} has no {} in {} (layer \"{}\")", execution_.backend->name,
                                     name(c.function), name(execution_.job.precision),
                                     execution_.job.graph->layers()[layer].name));
      }
    }
  }
}

/// Which way do copies between workers go: "" where there is none to choose.
std::string Run::route() const {
  auto* const reaches = execution_.backend->reaches;
  if (reaches == nullptr || here_ < 2) return "";
  if (execution_.route != PeerRoute::automatic) return std::string(name(execution_.route));
  bool all = true, any = false;
  for (uint32_t a = 0; a < here_; ++a) {
    for (uint32_t b = 0; b < here_; ++b) {
      if (a == b) continue;
      const bool direct = reaches(device_index(first_here_ + a), device_index(first_here_ + b));
      all = all && direct;
      any = any || direct;
    }
  }
  return all ? "peer" : any ? "peer where devices reach each other, else staged" : "staged";
}

void Run::check_route() const {
  auto* const reaches = execution_.backend->reaches;
  if (execution_.route == PeerRoute::automatic) return;
  if (reaches == nullptr)
    throw InputError(
        fmt::format("route {}: workers on backend {} have the same memory, so there is no choice",
                    name(execution_.route), execution_.backend->name));
  for (uint32_t a = first_here_; execution_.route == PeerRoute::peer && a < first_here_ + here_; ++a) {
    for (uint32_t b = first_here_; b < first_here_ + here_; ++b) {
      if (a != b && !reaches(device_index(a), device_index(b)))
        throw InputError(fmt::format(
            "route peer: the device of worker {} does not reach the memory of worker {}'s (tandem doctor "
            "shows who reaches whom); auto and staged go through host memory",
            a, b));
    }
  }
}

Run::Member Run::member(const Collective& collective, uint32_t instance) const {
  const auto& axes = program_.roles[0].mesh.axes;
  Member m;
  uint32_t rest = instance, stride = 1, group_stride = 1;
  for (std::size_t a = axes.size(); a-- > 0;) {
    const auto size = static_cast<uint32_t>(axes[a].size);
    const uint32_t index = rest % size;
    rest /= size;
    if ((collective.axes >> a & 1U) != 0) {
      m.rank += index * stride;
      stride *= size;
    } else {
      m.group += index * group_stride;
      group_stride *= size;
    }
  }
  m.ranks = stride;
  // The last axis counts the devices of a node.
  if (axes.size() == 2 && (collective.axes >> 1 & 1U) != 0) m.local = static_cast<uint32_t>(axes[1].size);
  return m;
}

void Run::make_transport() {
  if (execution_.rate_limit) {
    // Servers may stand on nodes of their own, behind those of the workers.
    const Role* servers = program_.stores.empty() ? nullptr : &program_.roles[program_.stores[0].role];
    const auto extra = servers != nullptr && servers->site == Site::extra_nodes ? servers->mesh.size() : 0;
    transport_ = std::make_unique<TcpTransport>(static_cast<uint32_t>(execution_.cluster.nodes + extra),
                                                execution_.rate_limit, abort_);
  }
  if (ranks().several() && workers_ > 1) {
    if (execution_.rate_limit)
      throw InputError(
          "links between processes are real: --rate-limit is for nodes that one machine emulates");
    if (!program_.stores.empty() && program_.roles[program_.stores[0].role].site == Site::extra_nodes)
      throw InputError("servers on nodes of their own would be processes without workers: only simulated");
    if (execution_.cluster.nodes != ranks().size)
      throw InputError(
          fmt::format("{} processes for {} nodes: each is one", ranks().size, execution_.cluster.nodes));
    transport_ = mpi_transport(abort_);
  }
}

/// Where each instance computes, in all processes.
std::vector<std::string> Run::units() const {
  std::string own;
  for (uint32_t i = first_here_; i < first_here_ + here_; ++i)
    own += execution_.backend->unit(device_index(i)) + '\n';
  std::string all = own;
  if (here_ < workers_) {
    all.clear();
    for (const std::string& part : gather_over_ranks(own)) all += part;
  }
  std::vector<std::string> out;
  std::istringstream lines(all);
  for (std::string line; std::getline(lines, line);) out.push_back(line);
  TANDEM_CHECK(out.size() == workers_);
  return out;
}

/// The library does a collective where it does it for every group, in every process. Named algorithms are
/// made of its messages; but where the route is named as well, those within one process take our own copies,
/// whose route it is.
std::vector<std::unique_ptr<DeviceGroup>> Run::library_groups(
    const Collective& collective, const std::vector<std::vector<uint32_t>>& members, uint32_t local) const {
  const Backend& backend = *execution_.backend;
  const bool several = here_ < workers_, named = collective.algorithm != "auto";
  // What goes over links that this machine emulates leaves the devices.
  if (backend.group == nullptr || (transport_ && !several)) return {};
  if (named && !several && execution_.route != PeerRoute::automatic) return {};
  const GroupShape shape{static_cast<uint32_t>(members[0].size()), std::max(1U, local), false};
  const Schedule schedule =
      named ? collective_schedule(collective.kind, collective.algorithm, shape, several) : Schedule{};
  const std::vector<std::string> all_units = units();
  std::vector<std::unique_ptr<DeviceGroup>> out;
  bool all = true;
  for (const std::vector<uint32_t>& group : members) {
    GroupSetup setup{collective.kind, collective.algorithm, {}, execution_.route, ""};
    const uint32_t owner = group[0] / here_;
    if (several)
      setup.id =
          gather_over_ranks(owner * here_ == first_here_ ? backend.group_id(execution_.route) : "")[owner];
    bool mine = false;
    for (const uint32_t i : group) {
      setup.units.push_back(all_units[i]);
      mine = mine || (i >= first_here_ && i < first_here_ + here_);
    }
    const bool possible = !several || !setup.id.empty();
    out.push_back(mine && possible ? backend.group(setup) : nullptr);
    if (out.back() && named) out.back() = scheduled_group(std::move(out.back()), schedule);
    all = all && possible && (!mine || out.back() != nullptr);
  }
  if (several) {
    for (const std::string& answer : gather_over_ranks(all ? "yes" : "")) all = all && !answer.empty();
  }
  if (!all) out.clear();
  return out;
}

void Run::make_groups() {
  groups_.resize(program_.collectives.size());
  library_.resize(program_.collectives.size());
  const auto per_node = static_cast<uint32_t>(std::max<int64_t>(1, execution_.cluster.per_node));
  make_transport();
  for (std::size_t c = 0; c < program_.collectives.size(); ++c) {
    const Collective& collective = program_.collectives[c];
    const Member m = member(collective, 0);
    if (collective.root != 0)
      throw InputError("collectives with another root than the first are not executed");
    std::vector<std::vector<uint32_t>> members(workers_ / m.ranks, std::vector<uint32_t>(m.ranks));
    for (uint32_t i = 0; i < workers_; ++i) {
      const Member at = member(collective, i);
      members[at.group][at.rank] = i;
    }
    library_[c] = library_groups(collective, members, m.local);
    for (const std::vector<uint32_t>& instances : members) {
      GroupNodes nodes;
      if (transport_) {
        nodes = {transport_.get(), channels_++, std::vector<uint32_t>(m.ranks)};
        for (uint32_t r = 0; r < m.ranks; ++r) nodes.of_ranks[r] = instances[r] / per_node;
      }
      groups_[c].push_back(std::make_unique<GroupCollective>(collective.kind, collective.algorithm, m.ranks,
                                                             m.local, abort_, spins_, nodes));
    }
    const bool sums = collective.kind == CollKind::all_reduce || collective.kind == CollKind::reduce ||
                      (collective.kind == CollKind::reduce_scatter && program_.stores.empty());
    for (const Op& op : program_.roles[0].ops) {
      if (op.kind != OpKind::collective || op.what != c || op.payload != Payload::gradients || !sums)
        continue;
      gradient_scale_ = 1 / static_cast<float>(m.ranks);
      sums_shares_ = micro_batches_ > 1 && op.every == 1;
    }
  }
  gradient_scale_ /= static_cast<float>(micro_batches_);
}

void Run::stop_library() noexcept {
  for (const auto& groups_of : library_) {
    for (const auto& group : groups_of) {
      if (group) group->stop();
    }
  }
}

void Run::stop_transport() {
  if (transport_) transport_->stop();
}

IterationState Run::state(uint32_t instance, int32_t iteration) const {
  const int64_t step = (first_iteration_ + iteration) / micro_batches_;
  IterationState s;
  s.seed = execution_.seed;
  s.instance = instance;
  s.iteration = static_cast<uint32_t>(first_iteration_ + iteration);
  s.learning_rate = execution_.integer_gradients ? 1.0F : learning_rate(execution_.rate, step, workers_);
  s.gradient_scale = execution_.integer_gradients ? 1.0F : gradient_scale_;
  s.updates = step + 1;
  return s;
}

Slice Run::slice(uint32_t key, uint32_t instance, uint32_t shard) const {
  const Bucket& bucket = program_.buckets[key];
  const int64_t rank = instance % local_;
  const int64_t begin = cut(bucket.elements, local_, rank), end = cut(bucket.elements, local_, rank + 1);
  const int64_t from = begin + cut(end - begin, shards_, shard),
                to = begin + cut(end - begin, shards_, shard + 1);
  return {bucket.first + from, to - from, shard};
}

Slice Run::share(uint32_t key, uint32_t instance) const {
  const Bucket& bucket = program_.buckets[key];
  const int64_t from = cut(bucket.elements, workers_, instance),
                to = cut(bucket.elements, workers_, instance + 1);
  return {bucket.first + from, to - from};
}

}  // namespace tandem::exec
