// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which vertex of the system every instance of a Program lives on.
#include <cstdint>
#include <vector>

#include "schemes/program/program.h"
#include "schemes/setup/scheme.h"
#include "topologies/system.h"

namespace tandem::sim {

/// How `devices` accelerators are taken from a system: whole nodes first, an even share of each node.
/// Throws InputError when the system has fewer, naming what it has and how to get more.
Cluster make_cluster(const System& system, int64_t devices);
/// The same of a machine with as many such nodes as that takes.
Cluster grown_cluster(const System& system, int64_t devices);
/// As make_cluster(), with another job: the next free ones after those that `other` uses, in order.
/// Servers on their own nodes follow the last node used.
Cluster make_cluster_behind(const System& system, const Cluster& other, int64_t devices);

/// The i-th accelerator used, node-major.
VertexId used_accelerator(const System& system, const Cluster& cluster, int64_t i);

/// Accelerators of a cluster that are one model in nodes of one kind.
struct DeviceSort {
  VertexId first = 0;
  std::vector<int64_t> devices;  ///< numbers in the cluster, increasing
};
/// Those that `cluster` uses, by their first device; of those that the system lacks, as grown_cluster()
/// allows them, none. At least one. O(devices).
std::vector<DeviceSort> device_sorts(const System& system, const Cluster& cluster);

/// Those of a job.
struct UsedDevices {
  Cluster cluster;
  std::vector<DeviceSort> sorts;
};
/// make_cluster() and its sorts. Throws as that. O(devices).
UsedDevices used_devices(const System& system, int64_t devices);

/// [role][instance] -> vertex. Throws InputError when servers need nodes that the system lacks.
std::vector<std::vector<VertexId>> place(const Program& program, const System& system,
                                         const Cluster& cluster);

/// Members of the group that `instance` belongs to, in mesh order; the group's first member names it.
std::vector<uint32_t> group_of(const Mesh& mesh, uint32_t axes, uint32_t instance);
/// Its first member. O(axes).
uint32_t first_of_group(const Mesh& mesh, uint32_t axes, uint32_t instance);

}  // namespace tandem::sim
