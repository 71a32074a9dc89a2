// SPDX-License-Identifier: Apache-2.0
#include "sim/bound/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace tandem::sim {

Cluster make_cluster(const System& system, int64_t devices) {
  const auto per_node = static_cast<int64_t>(system.accelerators().size());
  if (devices > system.accelerator_count()) {
    throw InputError(fmt::format("{} has {} devices ({} node{} of {}), not {}; a larger one: --set nodes={}",
                                 system.name(), system.accelerator_count(), system.nodes(),
                                 system.nodes() == 1 ? "" : "s", per_node, devices,
                                 devices / per_node + (devices % per_node != 0 ? 1 : 0)));
  }
  return grown_cluster(system, devices);
}

Cluster grown_cluster(const System& system, int64_t devices) {
  const auto per_node = static_cast<int64_t>(system.accelerators().size());
  Cluster c;
  c.devices = devices;
  c.nodes = (devices + per_node - 1) / per_node;
  // Counts that do not divide (12 on nodes of 8) fill nodes in order and make no grid.
  c.per_node = devices % c.nodes == 0 ? devices / c.nodes : 0;
  return c;
}

Cluster make_cluster_behind(const System& system, const Cluster& other, int64_t devices) {
  const auto all = static_cast<int64_t>(system.accelerators().size());
  const int64_t first =
      other.first + (other.per_node == 0 ? other.devices : (other.nodes - 1) * all + other.per_node);
  if (first + devices > system.accelerator_count()) {
    throw InputError(
        fmt::format("{} has {} devices: {} are left by the previous job, not {}; a larger one: "
                    "--set nodes={}",
                    system.name(), system.accelerator_count(), system.accelerator_count() - first, devices,
                    (first + devices + all - 1) / all));
  }
  Cluster c;
  c.devices = devices;
  c.first = first;
  c.nodes = (first + devices - 1) / all - first / all + 1;
  const bool whole = first % all == 0 && devices % c.nodes == 0;
  c.per_node = c.nodes == 1 || whole ? devices / c.nodes : 0;
  return c;
}

VertexId used_accelerator(const System& system, const Cluster& cluster, int64_t i) {
  if (cluster.per_node == 0) return system.accelerator(cluster.first + i);
  const auto all = static_cast<int64_t>(system.accelerators().size());
  return system.accelerator(cluster.first + i / cluster.per_node * all + i % cluster.per_node);
}

std::vector<DeviceSort> device_sorts(const System& system, const Cluster& cluster) {
  std::map<std::pair<std::size_t, int32_t>, std::size_t> known;
  std::vector<DeviceSort> out;
  const int64_t all = static_cast<int64_t>(system.accelerators().size());
  const int64_t whole = cluster.per_node == 0 ? cluster.devices : system.nodes() * cluster.per_node;
  const int64_t most = std::min({cluster.devices, whole, system.nodes() * all - cluster.first});
  for (int64_t i = 0; i < most; ++i) {
    const VertexId v = used_accelerator(system, cluster, i);
    const auto [at, fresh] = known.emplace(std::pair(system.kind_of(v), system.info(v).device), out.size());
    if (fresh) out.push_back({v, {}});
    out[at->second].devices.push_back(i);
  }
  return out;
}

UsedDevices used_devices(const System& system, int64_t devices) {
  const Cluster cluster = make_cluster(system, devices);
  return {cluster, device_sorts(system, cluster)};
}

std::vector<std::vector<VertexId>> place(const Program& program, const System& system,
                                         const Cluster& cluster) {
  std::vector<std::vector<VertexId>> out;
  const int64_t all = static_cast<int64_t>(system.accelerators().size());
  for (const Role& role : program.roles) {
    const int64_t count = role.mesh.size();
    std::vector<VertexId> at;
    at.reserve(static_cast<std::size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      switch (role.site) {
        case Site::accelerators:
          at.push_back(used_accelerator(system, cluster, grid_device(program, role, i) % cluster.devices));
          break;
        case Site::hosts:
          at.push_back(system.host_of(system.accelerator((cluster.first / all + i % cluster.nodes) * all)));
          break;
        case Site::extra_nodes: {
          const int64_t node = cluster.first / all + cluster.nodes + i;
          if (node >= system.nodes()) {
            throw InputError(
                fmt::format("{} servers on separate nodes need {} nodes; {} has {}: --set nodes={}", count,
                            node - i + count, system.name(), system.nodes(), node - i + count));
          }
          at.push_back(system.host_of(system.accelerator(node * all)));
          break;
        }
      }
    }
    out.push_back(std::move(at));
  }
  return out;
}

std::vector<uint32_t> group_of(const Mesh& mesh, uint32_t axes, uint32_t instance) {
  std::vector<uint32_t> stride(mesh.axes.size(), 1);
  for (std::size_t a = mesh.axes.size(); a-- > 1;)
    stride[a - 1] = stride[a] * static_cast<uint32_t>(mesh.axes[a].size);
  uint32_t base = instance;
  std::vector<uint32_t> members{0};
  for (std::size_t a = 0; a < mesh.axes.size(); ++a) {
    if (((axes >> a) & 1U) == 0) continue;
    const auto size = static_cast<uint32_t>(mesh.axes[a].size);
    base -= instance / stride[a] % size * stride[a];
    std::vector<uint32_t> grown;
    for (const uint32_t m : members) {
      for (uint32_t k = 0; k < size; ++k) grown.push_back(m + k * stride[a]);
    }
    members = std::move(grown);
  }
  for (uint32_t& m : members) m += base;
  return members;
}

uint32_t first_of_group(const Mesh& mesh, uint32_t axes, uint32_t instance) {
  uint32_t first = instance, stride = 1;
  for (std::size_t a = mesh.axes.size(); a-- > 0;) {
    const auto size = static_cast<uint32_t>(mesh.axes[a].size);
    if (((axes >> a) & 1U) != 0) first -= instance / stride % size * stride;
    stride *= size;
  }
  return first;
}

}  // namespace tandem::sim
