// SPDX-License-Identifier: Apache-2.0
// How the workers of a run reach each other: transports, groups of collectives, messages between stages.
#include <algorithm>
#include <sstream>
#include <utility>

#include "exec/comm/scheduled_group.h"
#include "exec/run/run.h"

namespace tandem::exec {

void Run::make_transport() {
  // Servers may be on separate nodes, numbered after those of the workers.
  const Role* servers = program_.stores.empty() ? nullptr : &program_.roles[program_.stores[0].role];
  const int64_t extra = servers != nullptr && servers->site == Site::extra_nodes ? servers->mesh.size() : 0;
  if (!ranks().several() || workers_ == 1) {
    const int64_t nodes = execution_.cluster.nodes + extra;
    if (nodes > 1)
      transport_ =
          std::make_unique<TcpTransport>(static_cast<uint32_t>(nodes), execution_.rate_limit, abort_);
    return;
  }
  if (execution_.rate_limit)
    throw InputError("--rate-limit is for nodes emulated on one machine; links between processes are real");
  if (extra > 0)
    throw InputError("servers on separate nodes would be processes without workers: only simulated");
  if (execution_.cluster.nodes != ranks().size)
    throw InputError(
        fmt::format("{} processes for {} nodes: each is one", ranks().size, execution_.cluster.nodes));
  transport_ = mpi_transport(abort_);
}

/// The device of each instance, in all processes.
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

/// The library runs a collective if it can for every group, in every process. Named algorithms use its
/// messages; but if the route is named too, those within one process use our own copies over that route.
std::vector<std::unique_ptr<DeviceGroup>> Run::library_groups(
    const Collective& collective, const std::vector<std::vector<uint32_t>>& members, uint32_t local) const {
  const Backend& backend = *execution_.backend;
  const bool several = here_ < workers_, named = collective.algorithm != "auto";
  // Traffic over emulated links leaves the devices.
  if (backend.group == nullptr || (transport_ && !several)) return {};
  if (collective.kind == CollKind::shift) return {};  // which a copy is
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

/// Messages between stages, and tokens between devices with different experts: both ends are opened before
/// either is used. Devices of a node are neighbours in the grid.
void Run::make_peers() {
  const auto links = [&](std::size_t count, bool any) {
    if (!any) return std::unique_ptr<PeerLinks>();
    const uint32_t first = std::exchange(channels_, channels_ + static_cast<uint32_t>(count));
    return std::make_unique<PeerLinks>(transport_.get(), first, static_cast<uint32_t>(count), abort_, spins_);
  };
  const auto& channels = program_.channels;
  const auto& collectives = program_.collectives;
  peers_ = links(channels.size(), std::any_of(channels.begin(), channels.end(),
                                              [](const Channel& c) { return !c.key_layers.empty(); }));
  const std::set<uint32_t> with_tokens = token_collectives();
  tokens_ = links(collectives.size(), !with_tokens.empty());
  for (uint32_t c = 0; c < channels.size(); ++c) {
    for (uint32_t key = 0; key < channels[c].key_layers.size(); ++key) {
      for (uint32_t i = 0; i < program_.roles[channels[c].from_role].mesh.size(); ++i)
        peers_->open(pair(c, key, stages_.device(channels[c].from_role, i)));
    }
  }
}

PeerLinks::Pair Run::pair(uint32_t channel, uint32_t key, uint32_t instance) const {
  const auto per_node = static_cast<uint32_t>(std::max<int64_t>(1, execution_.cluster.per_node));
  const Channel& c = program_.channels[channel];
  const uint32_t i = stages_.place(instance).instance;
  const uint32_t from = stages_.device(c.from_role, i), to = stages_.device(c.to_role, i);
  return {channel, key, from, to, from / per_node, to / per_node};
}

void Run::make_groups() {
  const std::set<uint32_t> with_tokens = token_collectives();
  groups_.resize(program_.collectives.size());
  library_.resize(program_.collectives.size());
  for (std::size_t c = 0; c < program_.collectives.size(); ++c) {
    const Collective& collective = program_.collectives[c];
    if (collective.root != 0)
      throw InputError("collectives with another root than the first are not executed");
    const Member m = member(collective, 0);
    std::vector<std::vector<uint32_t>> members(workers_ / m.ranks, std::vector<uint32_t>(m.ranks));
    for (uint32_t i = 0; i < workers_; ++i) {
      const Member at = member(collective, i);
      members[at.group][at.rank] = i;
    }
    if (with_tokens.count(static_cast<uint32_t>(c)) > 0) make_token_ways(static_cast<uint32_t>(c), members);
    if (collective.kind == CollKind::all_to_all) continue;  // only tokens
    library_[c] = library_groups(collective, members, m.local);
    for (const std::vector<uint32_t>& instances : members) make_group(c, instances, m);
  }
  set_gradient_scale();
  make_coordinator();
}

bool Run::carries_tokens(const Op& op) const {
  if (op.kind != OpKind::collective || op.payload != Payload::exchanged) return false;
  const CollKind kind = program_.collectives[op.what].kind;
  const Layer& layer = execution_.job.graph->layers()[op.key];
  return kind == CollKind::all_to_all || (kind != CollKind::all_reduce && layer.type->name == "experts");
}

std::set<uint32_t> Run::token_collectives() const {
  std::set<uint32_t> out;
  for (const Role& role : program_.roles) {
    for (const Op& op : role.ops) {
      if (carries_tokens(op)) out.insert(op.what);
    }
  }
  return out;
}

bool Run::coordinated(const Op& op) const {
  return cycle_ > 0 && op.kind == OpKind::collective && op.lane == Lane::comm &&
         op.payload == Payload::gradients && program_.collectives[op.what].kind == CollKind::all_reduce;
}

/// Of workers that are processors.
void Run::make_coordinator() {
  const ResolvedScheme& scheme = *execution_.job.scheme;
  if (workers_ == 1 || execution_.backend->asynchronous) return;
  cycle_ = scheme.overheads.cycle.ps / 1000;
  const auto& ops = program_.roles[0].ops;
  const auto first = std::find_if(ops.begin(), ops.end(), [this](const Op& op) { return coordinated(op); });
  if (first == ops.end()) cycle_ = 0;
  if (cycle_ == 0) return;
  most_fused_ = scheme.options.bytes("bucket").n / 4;
  const Member m = member(program_.collectives[(*first).what], 0);
  GroupNodes nodes;
  if (transport_) {
    nodes = {transport_.get(), channels_++, std::vector<uint32_t>(m.ranks)};
    const auto per_node = static_cast<uint32_t>(std::max<int64_t>(1, execution_.cluster.per_node));
    for (uint32_t r = 0; r < m.ranks; ++r) nodes.of_ranks[r] = r / per_node;
  }
  agreement_ = std::make_unique<GroupCollective>(CollKind::all_reduce, "auto", m.ranks, m.local, abort_,
                                                 spins_, nodes);
}

/// A path between each pair of members: the number of tokens is known when they arrive.
void Run::make_token_ways(uint32_t collective, const std::vector<std::vector<uint32_t>>& members) {
  for (uint32_t group = 0; group < members.size(); ++group) {
    token_members_[{collective, group}] = members[group];
    for (uint32_t from = 0; from < members[group].size(); ++from) {
      for (uint32_t to = 0; to < members[group].size(); ++to) {
        if (from != to) tokens_->open(token_way(collective, group, from, to));
      }
    }
  }
}

PeerLinks::Pair Run::token_way(uint32_t collective, uint32_t group, uint32_t from, uint32_t to) const {
  const auto per_node = static_cast<uint32_t>(std::max<int64_t>(1, execution_.cluster.per_node));
  const auto& members = token_members_.at({collective, group});
  return {collective, from, members[from], members[to], members[from] / per_node, members[to] / per_node};
}

void Run::make_group(std::size_t collective, const std::vector<uint32_t>& instances, const Member& m) {
  const auto per_node = static_cast<uint32_t>(std::max<int64_t>(1, execution_.cluster.per_node));
  GroupNodes nodes;
  if (transport_) {
    nodes = {transport_.get(), channels_++, std::vector<uint32_t>(m.ranks)};
    for (uint32_t r = 0; r < m.ranks; ++r) nodes.of_ranks[r] = instances[r] / per_node;
  }
  const Collective& c = program_.collectives[collective];
  groups_[collective].push_back(
      std::make_unique<GroupCollective>(c.kind, c.algorithm, m.ranks, m.local, abort_, spins_, nodes));
}

/// Sums of gradients become means, over the summed members and the micro-batches.
void Run::set_gradient_scale() {
  for (const Op& op : program_.roles[0].ops) {
    const bool compressed = op.payload == Payload::compressed;
    if (op.kind != OpKind::collective || (op.payload != Payload::gradients && !compressed)) continue;
    const CollKind kind = program_.collectives[op.what].kind;
    const bool sums = compressed || kind == CollKind::all_reduce || kind == CollKind::reduce ||
                      (kind == CollKind::reduce_scatter && program_.stores.empty());
    if (!sums) continue;
    // Dealt experts have seen the others' tokens already: theirs is a mean over all of these. So are shared
    // layers if partners have different samples and losses are means over all of these.
    const uint32_t ranks = stages_.own_samples() ? 1
                           : stages_.split()     ? stages_.replicas() / stages_.apart() * stages_.contexts()
                                                 : member(program_.collectives[op.what], 0).ranks;
    gradient_scale_ = 1 / static_cast<float>(ranks);
    sums_shares_ = micro_batches_ > 1 && op.every == 1;
    if (op.until != Op::kEver) sums_until_ = op.until;
  }
  const auto sums_shard = [](const Op& op) {
    return op.kind == OpKind::collective && op.payload == Payload::shard;
  };
  const auto& ops = program_.roles[0].ops;
  const auto between = std::find_if(ops.begin(), ops.end(), sums_shard);
  if (between != ops.end() && !stages_.split())
    gradient_scale_ /= static_cast<float>(member(program_.collectives[(*between).what], 0).ranks);
  for (const Op& op : program_.roles[0].ops) {
    if (op.kind == OpKind::collective && op.payload == Payload::gradients && op.micro + 1 < stages_.micros())
      sums_shares_ = true;
  }
  gradient_scale_ /= static_cast<float>(micro_batches_ * stages_.micros());
}

bool Run::has_library() const {
  return std::any_of(library_.begin(), library_.end(), [](const auto& groups_of) {
    return std::any_of(groups_of.begin(), groups_of.end(),
                       [](const auto& group) { return group != nullptr; });
  });
}

void Run::meet_captured(uint32_t nth) {
  if (here_ < 2 || !has_library()) return;
  captured_.add();
  captured_.wait(here_ * nth, abort_, spins_);
}

std::string Run::library_failure() const {
  for (const auto& groups_of : library_) {
    for (const auto& group : groups_of) {
      if (std::string why = group ? group->failure() : ""; !why.empty()) return why;
    }
  }
  return "";
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

}  // namespace tandem::exec
