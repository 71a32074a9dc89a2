// SPDX-License-Identifier: Apache-2.0
// Why a model does not fit and what would help, in words.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "answers/fitting.h"
#include "base/text.h"
#include "sim/bound/placement.h"

namespace tandem::answers {

namespace {

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
        "them, servers on its processors and the system itself (--set host.memory=... says how much there "
        "is); ",
        who, gib_text(m.node.needed), gib_text(m.node.capacity), p.system->nodes() > 1 ? " on each node" : "",
        to_text(m.host));
  return fmt::format(
      "{} needs {} on {}{} ({} usable): parameters, gradients and optimiser {}, activations {}, workspace "
      "and buffers {}, the allocator's rounding and cache {}, the driver and communication {}; ",
      who, to_text(m.needed()), p.devices == 1 ? "" : fmt::format("each of {} ", p.devices),
      tightest_device(p, m), to_text(m.capacity), to_text(m.parameters + m.gradients + m.optimizer),
      to_text(m.activations), to_text(m.workspace + m.buffers), to_text(m.reserved - m.total()),
      to_text(m.nvidia_smi - m.reserved));
}

/// "loss=fused" of "weights=half,loss=fused", where weights are half already.
std::string new_settings(const Request& p, const std::string& memory) {
  std::vector<std::string> out = split(memory, ',');
  for (const auto& [key, value] : p.memory) std::erase(out, fmt::format("{}={}", key, value));
  return fmt::format("{}", fmt::join(out, ","));
}

/// "--recompute blocks on at least 16 devices (--set nodes=2)".
std::string remedy_words(const Request& p, const Remedy& remedy) {
  std::string devices;
  std::vector<std::string> rest;
  for (const auto& [option, value] : remedy.changes) {
    if (option == "devices") {
      devices = fmt::format("at least {} device{}", value, value == "1" ? "" : "s");
    } else if (option == "set") {
      devices += fmt::format(" (--set {})", value);
    } else {
      rest.push_back(fmt::format("--{} {}", option, option == "memory" ? new_settings(p, value) : value));
    }
  }
  return fmt::format("{}{}{}", fmt::join(rest, " and "), rest.empty() || devices.empty() ? "" : " on ",
                     devices);
}

bool has_only(const Remedy& remedy, std::string_view option) {
  return remedy.changes.size() == 1 && remedy.changes[0].option == option;
}

/// "a device with more memory, as a40 (48 GiB), h100-pcie (80 GiB) (--swap device=a40)".
std::string larger_devices(const std::vector<std::string>& names, const MemoryUse& needs) {
  std::vector<std::string> sizes;
  for (const std::string& name : names)
    sizes.push_back(fmt::format("{} ({})", name, to_text(Device::load(name).memory)));
  return fmt::format("a device with more memory, as {} (--swap device={}){}", fmt::join(sizes, ", "),
                     names.front(),
                     needs.node.fits() ? "" : fmt::format(" in a host with {}", gib_text(needs.node.needed)));
}

}  // namespace

std::string fit_text(const Request& p, const MemoryUse& needs, const std::vector<Remedy>& remedies) {
  std::string batch = "not even one sample fits";
  std::vector<std::string> helps, devices;
  for (const Remedy& remedy : remedies) {
    const auto& [option, value] = remedy.changes.front();
    if (option == "swap") {
      devices.push_back(value.substr(value.find('=') + 1));
    } else if (has_only(remedy, "batch")) {
      batch = "the largest batch that fits is " + value;
    } else {
      helps.push_back(remedy_words(p, remedy));
    }
  }
  if (!devices.empty()) helps.push_back(larger_devices(devices, needs));
  return fmt::format("{}{}{}{}; tandem advise looks for other ways", needs_of(p, needs), batch,
                     helps.empty() ? "" : "; what would fit: ", fmt::join(helps, ", or "));
}

}  // namespace tandem::answers
