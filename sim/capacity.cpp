// SPDX-License-Identifier: Apache-2.0
#include "sim/capacity.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "sim/bound/placement.h"
#include "sim/habits.h"
#include "sim/host_memory.h"
#include "sim/memory/memory.h"
#include "sim/networks.h"
#include "sim/simulation.h"

namespace tandem::sim {

namespace {

constexpr int64_t kMostDevices = 1 << 20;

using MemoryOf = std::function<MemoryUse(int64_t devices)>;

MemoryOf memory_of(const Request& p) {
  return [&p](int64_t devices) { return memory_on(p, devices); };
}

/// Nothing where the scheme refuses that many devices.
std::optional<MemoryUse> try_memory(const MemoryOf& memory, int64_t devices) {
  try {
    return memory(devices);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

bool fits(const MemoryOf& memory_of, int64_t devices) {
  const auto memory = try_memory(memory_of, devices);
  return memory && memory->fits();
}

/// The largest batch that fits, by bisection; 0 when not even one sample does.
int64_t largest_batch(Request p) {
  int64_t low = 0, high = p.job.batch;
  while (high - low > 1) {
    p.job.batch = low + (high - low) / 2;
    (fits(memory_of(p), p.devices) ? low : high) = p.job.batch;
  }
  return low;
}

/// All that the scheme can leave in the host's memory but activations, and those of `has`.
Offload most_offloaded(const ResolvedScheme& scheme, Offload has) {
  if (scheme.scheme->offloads == nullptr) return has;
  const Offload can = scheme.scheme->offloads(scheme.options);
  return {can.optimizer, can.gradients, can.parameters, has.activations};
}

/// "zero:stage=3": its name, with the options that are not the scheme's defaults.
std::string text_of(const ResolvedScheme& scheme) {
  std::vector<std::string> set;
  for (const OptionSpec& option : scheme.scheme->options) {
    const std::string& value = scheme.options.text(option.name);
    if (value != option.fallback) set.push_back(fmt::format("{}={}", option.name, value));
  }
  return fmt::format("{}{}{}", scheme.name, set.empty() ? "" : ":", fmt::join(set, ","));
}

/// Adds the changes if the prediction that they make fits.
void add_if_fits(std::vector<Remedy::Change> changes, const Request& changed, std::vector<Remedy>& out) {
  const auto m = try_memory(memory_of(changed), changed.devices);
  if (m && m->fits()) out.push_back({std::move(changes), changed.devices, m->needed(), m->capacity});
}

/// Of schemes whose workers may be more than a device: those that are whole nodes, which share out the model,
/// and as many samples as fit then.
void add_node_workers(const Request& p, std::vector<Remedy>& out) {
  ResolvedScheme nodes = *p.job.scheme;
  const auto& options = nodes.scheme->options;
  const bool can = std::any_of(options.begin(), options.end(),
                               [](const OptionSpec& option) { return option.name == "worker"; });
  if (!can || nodes.options.text("worker") == "node" || nodes.options.count("workers") > 0) return;
  auto settings = nodes.options.all();
  settings.emplace_back("worker", "node");
  if (nodes.options.text("sharding") == "none") settings.emplace_back("sharding", "3");
  nodes.options = Options(options, settings, nodes.name, {});
  Request changed = p;
  changed.job.scheme = &nodes;
  if (!fits(memory_of(changed), p.devices)) changed.job.batch = largest_batch(changed);
  if (changed.job.batch == 0) return;
  std::vector<Remedy::Change> changes = {{"scheme", text_of(nodes)}};
  if (changed.job.batch < p.job.batch) changes.push_back({"batch", std::to_string(changed.job.batch)});
  add_if_fits(std::move(changes), changed, out);
}

/// Changes to that many devices, and what that takes of the machine.
void take_devices(int64_t devices, Request& changed, std::vector<Remedy::Change>& changes) {
  changed.devices = devices;
  changes.push_back({"devices", std::to_string(devices)});
  const auto per_node = static_cast<int64_t>(changed.system->accelerators().size());
  if (devices > changed.system->accelerator_count())
    changes.push_back({"set", fmt::format("nodes={}", (devices + per_node - 1) / per_node)});
}

/// From the changes that cost least time on. A change of more things is named only where it takes fewer
/// devices, and offload only where more devices than asked are needed without.
void add_changes(const Request& p, const ResolvedScheme& sharded, std::vector<Remedy>& out) {
  Request spread = p;
  spread.job.scheme = &sharded;
  const auto own = try_memory(memory_of(p), 64), other = try_memory(memory_of(spread), 64);
  const bool may_spread = own && other && other->needed() < own->needed();
  int64_t least = INT64_MAX;
  for (int i = 0; i < 8; ++i) {
    const bool offload = (i & 4) != 0, change_scheme = (i & 2) != 0, again = (i & 1) != 0;
    if ((change_scheme && !may_spread) || (again && p.job.recompute.blocks)) continue;
    if (offload && least <= p.devices) break;
    Request changed = change_scheme ? spread : p;
    if (again) changed.job.recompute = {.blocks = true};
    if (offload) changed.job.offload = most_offloaded(*changed.job.scheme, p.job.offload);
    if (offload && changed.job.offload == p.job.offload) continue;
    const int64_t devices = fewest_devices(changed);
    if (devices == 0 || devices >= least) continue;
    least = devices;
    std::vector<Remedy::Change> changes;
    if (change_scheme) changes.push_back({"scheme", text_of(sharded)});
    if (again) changes.push_back({"recompute", "blocks"});
    if (offload) changes.push_back({"offload", changed.job.offload.text()});
    if (devices > p.devices) take_devices(devices, changed, changes);
    add_if_fits(std::move(changes), changed, out);
  }
}

/// Up to three models of devices of the same vendor that have this much memory, those with the least of it,
/// in a host that has enough.
void add_larger_devices(const Request& p, const MemoryUse& m, std::vector<Remedy>& out) {
  constexpr std::size_t kMost = 3;
  const Device& own = p.system->device(p.system->accelerator(0));
  std::vector<Device> larger;
  for (const SystemEntry& entry : list_devices()) {
    Device device = Device::load(entry.name);
    if (device.kind == own.kind && device.vendor == own.vendor && device.usable >= m.needed())
      larger.push_back(std::move(device));
  }
  std::stable_sort(larger.begin(), larger.end(), [](const Device& a, const Device& b) {
    return std::pair(a.usable, -a.year) < std::pair(b.usable, -b.year);
  });
  if (larger.size() > kMost) larger.resize(kMost);
  constexpr int64_t kGib = 1 << 30;
  for (const Device& device : larger) {
    out.push_back({{{"swap", "device=" + device.name}}, p.devices, m.needed(), device.usable});
    if (!m.node.fits())
      out.back().changes.push_back(
          {"set", fmt::format("host.memory={}GiB", (m.node.needed.n + kGib - 1) / kGib)});
  }
}

/// device_sorts(), whatever the kinds of nodes: memory is a matter of the model.
std::vector<DeviceSort> models_of(const Request& p, const Cluster& cluster) {
  std::vector<DeviceSort> out;
  for (DeviceSort& sort : device_sorts(*p.system, cluster)) {
    const auto same = std::find_if(out.begin(), out.end(), [&](const DeviceSort& o) {
      return p.system->info(o.first).device == p.system->info(sort.first).device;
    });
    if (same == out.end()) {
      out.push_back(std::move(sort));
      continue;
    }
    same->devices.insert(same->devices.end(), sort.devices.begin(), sort.devices.end());
    std::sort(same->devices.begin(), same->devices.end());
  }
  return out;
}

/// How many devices of the kind have the role that a row is of.
int64_t on_sort(const Program& program, const RoleMemory& row, const DeviceSort& sort) {
  const auto all = static_cast<int64_t>(sort.devices.size());
  const bool root = sort.devices.front() == 0;
  if (row.role == "master") return root ? 1 : 0;
  if (row.role == "replica") return all - (root ? 1 : 0);
  int64_t count = 0;
  for (const Role& role : program.roles) {
    if (!role.works() || role.name != row.role) continue;
    for (int64_t i = 0; i < role.mesh.size(); ++i)
      count +=
          std::binary_search(sort.devices.begin(), sort.devices.end(), grid_device(program, role, i)) ? 1 : 0;
  }
  return count;
}

}  // namespace

namespace {

std::vector<RoleMemory> of_devices(const Request& p, const Simulation& simulation, const Cluster& cluster,
                                   const Program& program, Bytes most) {
  const MemoryHabits habits = habits_of(p);
  const auto batches = simulation.batches(cluster);
  const auto sorts = models_of(p, cluster);
  if (sorts.size() == 1 && !batches)
    return memory_by_role(simulation.work(), p.system->device(sorts[0].first), program, habits, most,
                          p.timeline);
  std::vector<RoleMemory> out;
  for (const DeviceSort& sort : sorts) {
    const Device& device = p.system->device(sort.first);
    int64_t samples = 0;  // the most of the kind
    for (std::size_t i = 0; batches && i < sort.devices.size(); ++i)
      samples = std::max(samples, batches->samples[static_cast<std::size_t>(sort.devices[i])]);
    Job job = p.job;
    if (batches) job.batch = samples;
    const Workload work = make_workload(job);
    for (RoleMemory& row : memory_by_role(work, device, batches ? *batches->programs.at(samples) : program,
                                          habits, kAnyMemory, p.timeline)) {
      row.devices = on_sort(program, row, sort);
      row.role += " on " + device.name;
      if (row.devices > 0) out.push_back(std::move(row));
    }
  }
  return out;
}

}  // namespace

std::vector<RoleMemory> memory_of(const Request& p, const Simulation& simulation, const Cluster& cluster,
                                  const Program& program, Bytes most) {
  std::vector<RoleMemory> out = of_devices(p, simulation, cluster, program, most);
  const HostMemory node = host_memory(*p.system, cluster, simulation.work(), program, out);
  for (RoleMemory& row : out) row.memory.node = node;
  return out;
}

MemoryUse memory_on(const Request& p, int64_t devices, Bytes most) {
  if (!p.then.empty()) {
    std::vector<MemoryUse> each;
    for (const Network& network : networks_of(p)) each.push_back(memory_on(network.prediction, devices));
    return memory_in_turn(each);
  }
  const Simulation simulation(p);
  const Cluster cluster = grown_cluster(*p.system, devices);
  return largest(memory_of(p, simulation, cluster, *simulation.program(cluster), most));
}

Bytes kept_by_forward(const Request& p) {
  const Simulation simulation(p);
  return kept_by_forward(simulation.work(), *simulation.program(grown_cluster(*p.system, p.devices)),
                         habits_of(p));
}

int64_t fewest_devices(const Request& p) { return fewest_devices(p, memory_of(p)); }

int64_t fewest_devices(const Request& p, const std::function<MemoryUse(int64_t)>& needs) {
  const Scheme& scheme = *p.job.scheme->scheme;
  const int64_t each = scheme.replica_devices == nullptr ? 1 : scheme.replica_devices(p.job.scheme->options);
  if (fits(needs, each)) return each;
  int64_t low = 1, high = 2;  // multiples of what one model takes
  std::optional<MemoryUse> before;
  for (;; low = high, high *= 2) {
    const auto memory = try_memory(needs, high * each);
    if (memory && memory->fits()) break;
    // From four on, what did not shrink by doubling the devices never will.
    if (high * each >= kMostDevices || (before && memory && memory->needed() >= before->needed())) return 0;
    before = memory;
  }
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (fits(needs, middle * each) ? high : low) = middle;
  }
  return high * each;
}

std::vector<Remedy> remedies(const Request& p, const MemoryUse& needs, const ResolvedScheme& sharded,
                             std::vector<Remedy> first) {
  std::vector<Remedy> out;
  Request smaller = p;
  smaller.job.batch = largest_batch(p);
  if (smaller.job.batch > 0) add_if_fits({{"batch", std::to_string(smaller.job.batch)}}, smaller, out);
  std::move(first.begin(), first.end(), std::back_inserter(out));
  add_node_workers(p, out);
  add_changes(p, sharded, out);
  if (needs.needed() > needs.capacity) add_larger_devices(p, needs, out);
  for (auto at = out.begin(); at != out.end();) {
    const bool again =
        std::any_of(out.begin(), at, [&](const Remedy& r) { return r.changes == at->changes; });
    at = again ? out.erase(at) : at + 1;
  }
  return out;
}

}  // namespace tandem::sim
