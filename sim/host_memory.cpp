// SPDX-License-Identifier: Apache-2.0
#include "sim/host_memory.h"

#include <algorithm>

namespace tandem::sim {

namespace {

/// The role's rows, of unlike devices the one that leaves most there.
Bytes of_role(const Role& role, const std::vector<RoleMemory>& rows, bool processors) {
  Bytes most;
  for (const RoleMemory& row : rows) {
    const bool own = row.role == role.name || row.role.starts_with(role.name + " on ");
    if (own || rows.size() == 1)
      most = std::max(most, row.memory.host + (processors ? row.memory.needed() : Bytes{}));
  }
  return most;
}

/// Elements of a model with its gradients, as merged, and its state.
Bytes of_servers(const Workload& work) {
  return Bytes{4} * checked_mul(work.graph->parameter_elements(), 2 + work.optimizer->state, "a server");
}

bool on_hosts(const Program& program) {
  return std::any_of(program.stores.begin(), program.stores.end(), [&](const Store& store) {
    return program.roles[store.role].site != Site::accelerators;
  });
}

Bytes loaded(const Workload& work) {
  if (!work.input) return {};
  return work.graph->sample().decoded * checked_mul(work.batch, std::max<int64_t>(1, work.loading.prefetch));
}

/// What each node's share comes to.
class Nodes {
 public:
  Nodes(const System& system, const Cluster& cluster)
      : per_node_(cluster.per_node > 0 ? cluster.per_node
                                       : static_cast<int64_t>(system.accelerators().size())),
        bytes_(static_cast<std::size_t>(std::max<int64_t>(1, cluster.nodes))) {}
  void add(int64_t device, Bytes bytes) { add_to(device / per_node_, bytes); }
  void add_to(int64_t node, Bytes bytes) {
    Bytes& sum = bytes_[static_cast<std::size_t>(node) % bytes_.size()];
    sum = sum + bytes;
  }
  void add_to_all(int64_t devices, Bytes each) {
    for (std::size_t n = 0; n < bytes_.size(); ++n)
      bytes_[n] = bytes_[n] + each * std::min(per_node_, devices - per_node_ * static_cast<int64_t>(n));
  }
  Bytes most() const { return *std::max_element(bytes_.begin(), bytes_.end()); }
  int64_t count() const { return static_cast<int64_t>(bytes_.size()); }

 private:
  int64_t per_node_;
  std::vector<Bytes> bytes_;
};

void add_servers(const Workload& work, const Program& program, Nodes& nodes, Bytes& apart) {
  for (const Store& store : program.stores) {
    const Role& role = program.roles[store.role];
    if (role.site == Site::accelerators) continue;
    const int64_t count = std::max<int64_t>(1, role.mesh.size());
    const Bytes each{(of_servers(work).n + count - 1) / count};
    if (role.site == Site::extra_nodes)
      apart = std::max(apart, each);
    else
      for (int64_t i = 0; i < count; ++i) nodes.add_to(i % nodes.count(), each);
  }
}

Bytes capacity_of(const System& system) {
  Bytes least;
  for (std::size_t kind = 0; kind < system.kinds().size(); ++kind) {
    const Bytes has = system.host_memory(kind);
    if (has.n == 0) return {};
    least = least.n == 0 ? has : std::min(least, has);
  }
  return least;
}

}  // namespace

bool uses_host(const Program& program, const std::vector<RoleMemory>& roles) {
  return on_hosts(program) ||
         std::any_of(roles.begin(), roles.end(), [](const RoleMemory& row) { return row.memory.host.n > 0; });
}

HostMemory host_memory(const System& system, const Cluster& cluster, const Workload& work,
                       const Program& program, const std::vector<RoleMemory>& roles) {
  const bool processors = system.device(system.accelerator(0)).kind == Device::Kind::cpu;
  const Bytes exchanged =
      on_hosts(program) && !processors ? Bytes{2 * 4} * work.graph->parameter_elements() : Bytes{};
  Nodes nodes(system, cluster);
  for (const Role& role : program.roles) {
    if (!role.works()) continue;
    const Bytes each = of_role(role, roles, processors) + loaded(work) + exchanged;
    if (program.grid.axes.empty())
      nodes.add_to_all(role.mesh.size(), each);
    else if (each.n > 0)
      for (int64_t i = 0; i < role.mesh.size(); ++i) nodes.add(grid_device(program, role, i), each);
  }
  Bytes apart;
  add_servers(work, program, nodes, apart);
  HostMemory out;
  out.capacity = capacity_of(system);
  const Bytes own = out.capacity.n == 0 ? kOwnMemory : std::min(kOwnMemory, Bytes{out.capacity.n / 16});
  out.needed = std::max(nodes.most(), apart) + own;
  return out;
}

}  // namespace tandem::sim
