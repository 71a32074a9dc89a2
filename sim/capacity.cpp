// SPDX-License-Identifier: Apache-2.0
#include "sim/capacity.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/precision.h"
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

/// "at least 4 devices", with the nodes that takes where the system has fewer.
std::string devices_text(const Request& p, int64_t devices) {
  const int64_t per_node = static_cast<int64_t>(p.system->accelerators().size());
  const bool has = devices <= p.system->accelerator_count();
  return fmt::format("at least {} device{}{}", devices, devices == 1 ? "" : "s",
                     has ? "" : fmt::format(" (--set nodes={})", (devices + per_node - 1) / per_node));
}

/// All that the scheme can leave in the host's memory but activations, and those of `has`.
Offload most_offloaded(const ResolvedScheme& scheme, Offload has) {
  if (scheme.scheme->offloads == nullptr) return has;
  const Offload can = scheme.scheme->offloads(scheme.options);
  return {can.optimizer, can.gradients, can.parameters, has.activations};
}

/// Of schemes whose workers may be more than a device: those that are whole nodes, which share out the model,
/// and as many samples as fit then.
std::string node_workers(const Request& p) {
  const ResolvedScheme& own = *p.job.scheme;
  const auto& options = own.scheme->options;
  const bool can = std::any_of(options.begin(), options.end(),
                               [](const OptionSpec& option) { return option.name == "worker"; });
  if (!can || own.options.text("worker") == "node" || own.options.count("workers") > 0) return "";
  ResolvedScheme nodes = own;
  auto settings = own.options.all();
  settings.emplace_back("worker", "node");
  if (own.options.text("sharding") == "none") settings.emplace_back("sharding", "3");
  nodes.options = Options(options, settings, own.name, {});
  Request changed = p;
  changed.job.scheme = &nodes;
  const int64_t batch = fits(memory_of(changed), p.devices) ? p.job.batch : largest_batch(changed);
  if (batch == 0) return "";
  std::vector<std::string> set;
  for (const OptionSpec& option : options) {
    const std::string& value = nodes.options.text(option.name);
    if (value != option.fallback) set.push_back(fmt::format("{}={}", option.name, value));
  }
  const std::string fewer = batch == p.job.batch ? "" : fmt::format(" and --batch {}", batch);
  return fmt::format("--scheme {}:{}{}", own.name, fmt::join(set, ","), fewer);
}

/// What lets it fit, in words; each tried, from the changes that cost least time on. A change of more things
/// is named only where it takes fewer devices, and offload only where more devices than asked are needed
/// without.
std::vector<std::string> remedies(const Request& p) {
  const ResolvedScheme sharded = resolve_scheme("zero:stage=3", Place{});
  Request spread = p;
  spread.job.scheme = &sharded;
  const auto own = try_memory(memory_of(p), 64), other = try_memory(memory_of(spread), 64);
  const bool may_spread = own && other && other->needed() < own->needed();
  std::vector<std::string> out;
  if (p.job.graph->frozen_elements() > 0 && element_bytes(p.job.precision) < 4) {
    Request half = p;  // weights that are not learned need no fp32 copy
    half.memory.emplace_back("weights", "half");
    if (fits(memory_of(half), p.devices)) out.push_back("--memory weights=half");
  }
  if (std::string nodes = node_workers(p); !nodes.empty()) out.push_back(std::move(nodes));
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
    std::vector<std::string> words;
    if (change_scheme) words.push_back("--scheme zero:stage=3");
    if (again) words.push_back("--recompute blocks");
    if (offload) words.push_back("--offload " + changed.job.offload.text());
    std::string text = fmt::format("{}", fmt::join(words, " and "));
    if (devices > p.devices) text += (text.empty() ? "" : " on ") + devices_text(p, devices);
    out.push_back(std::move(text));
  }
  return out;
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

/// The model of a device that has so much memory.
std::string tightest_device(const Request& p, const MemoryUse& m) {
  for (const DeviceSort& sort : device_sorts(*p.system, grown_cluster(*p.system, p.devices))) {
    const Device& device = p.system->device(sort.first);
    if (device.usable == m.capacity) return device.name;
  }
  return p.system->device(p.system->accelerator(0)).name;
}

/// "1,052 GiB".
std::string gib_text(Bytes bytes) {
  if (bytes.n < (int64_t{1} << 30)) return to_text(bytes);
  const int64_t gib = (bytes.n + (int64_t{1} << 29)) >> 30;
  return gib < 1000 ? fmt::format("{} GiB", gib) : fmt::format("{},{:03} GiB", gib / 1000, gib % 1000);
}

/// What is too much, and what it is made of.
std::string needs_of(const Request& p, const MemoryUse& m) {
  const std::string who = fmt::format("{} with batch {}", p.job.graph->name(), p.job.batch);
  if (m.needed() <= m.capacity)
    return fmt::format(
        "{} needs {} of the host's {}{}: what its devices leave there, {} each, batches on their way to "
        "them, "
        "servers on its processors and the system itself (--set host.memory=... says how much there is); ",
        who, gib_text(m.node.needed), gib_text(m.node.capacity), p.system->nodes() > 1 ? " on each node" : "",
        to_text(m.host));
  return fmt::format(
      "{} needs {} on {}{} ({} usable): parameters, gradients and optimiser {}, activations {}, workspace "
      "and "
      "buffers {}, the allocator's rounding and cache {}, the driver and communication {}; ",
      who, to_text(m.needed()), p.devices == 1 ? "" : fmt::format("each of {} ", p.devices),
      tightest_device(p, m), to_text(m.capacity), to_text(m.parameters + m.gradients + m.optimizer),
      to_text(m.activations), to_text(m.workspace + m.buffers), to_text(m.reserved - m.total()),
      to_text(m.nvidia_smi - m.reserved));
}

/// Up to three models of devices of the same vendor that have this much memory, those with the least of it.
std::string larger_devices(const Request& p, const MemoryUse& m) {
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
  if (larger.empty()) return "";
  if (larger.size() > kMost) larger.resize(kMost);
  std::vector<std::string> names;
  for (const Device& device : larger)
    names.push_back(fmt::format("{} ({})", device.name, to_text(device.memory)));
  return fmt::format("a device with more memory, as {} (--swap device={}){}", fmt::join(names, ", "),
                     larger.front().name,
                     m.node.fits() ? "" : fmt::format(" in a host with {}", gib_text(m.node.needed)));
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
                                   const Program& program) {
  const MemoryHabits habits = habits_of(p);
  const auto batches = simulation.batches(cluster);
  const auto sorts = models_of(p, cluster);
  if (sorts.size() == 1 && !batches)
    return memory_by_role(simulation.work(), p.system->device(sorts[0].first), program, habits);
  std::vector<RoleMemory> out;
  for (const DeviceSort& sort : sorts) {
    const Device& device = p.system->device(sort.first);
    int64_t samples = 0;  // the most of the kind
    for (std::size_t i = 0; batches && i < sort.devices.size(); ++i)
      samples = std::max(samples, batches->samples[static_cast<std::size_t>(sort.devices[i])]);
    Job job = p.job;
    if (batches) job.batch = samples;
    const Workload work = make_workload(job);
    for (RoleMemory& row :
         memory_by_role(work, device, batches ? *batches->programs.at(samples) : program, habits)) {
      row.devices = on_sort(program, row, sort);
      row.role += " on " + device.name;
      if (row.devices > 0) out.push_back(std::move(row));
    }
  }
  return out;
}

}  // namespace

std::vector<RoleMemory> memory_of(const Request& p, const Simulation& simulation, const Cluster& cluster,
                                  const Program& program) {
  std::vector<RoleMemory> out = of_devices(p, simulation, cluster, program);
  const HostMemory node = host_memory(*p.system, cluster, simulation.work(), program, out);
  for (RoleMemory& row : out) row.memory.node = node;
  return out;
}

MemoryUse memory_on(const Request& p, int64_t devices) {
  if (!p.then.empty()) {
    std::vector<MemoryUse> each;
    for (const Network& network : networks_of(p)) each.push_back(memory_on(network.prediction, devices));
    return memory_in_turn(each);
  }
  const Simulation simulation(p);
  const Cluster cluster = grown_cluster(*p.system, devices);
  return largest(memory_of(p, simulation, cluster, *simulation.program(cluster)));
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

std::string fit_advice(const Request& p, const std::vector<std::string>& first) {
  const MemoryUse m = memory_on(p, p.devices);
  const int64_t batch = largest_batch(p);
  std::string out = needs_of(p, m) + (batch > 0 ? fmt::format("the largest batch that fits is {}", batch)
                                                : "not even one sample fits");
  std::vector<std::string> helps = first;
  const auto add = [&](const std::string& help) {
    if (!help.empty() && std::find(helps.begin(), helps.end(), help) == helps.end()) helps.push_back(help);
  };
  for (const std::string& help : remedies(p)) add(help);
  if (m.needed() > m.capacity) add(larger_devices(p, m));
  const std::string ask = "tandem advise looks for other ways";
  return out + (helps.empty() ? "; " + ask
                              : fmt::format("; what would fit: {}; {}", fmt::join(helps, ", or "), ask));
}

}  // namespace tandem::sim
