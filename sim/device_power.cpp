// SPDX-License-Identifier: Apache-2.0
#include "sim/device_power.h"

#include <algorithm>
#include <string>

namespace tandem::sim {

namespace {

/// Of worker 0's kernels, what others may have that are faster and wait for it.
constexpr double kLeastBusy = 0.5;

bool of_products(const std::string& kind) {
  for (int k = 0; k < kKernelKinds; ++k)
    if (name(static_cast<KernelKind>(k)) == kind) return is_product(static_cast<KernelKind>(k));
  return false;
}

/// Watts of one device for each part, which add up to those of the whole.
std::vector<std::pair<std::string, double>> parts_of(const Report& r, const topologies::PowerModel& model) {
  const topologies::Activity all = activity_of(r);
  std::vector<std::pair<std::string, double>> out;
  const auto add = [&](const std::string& name, const topologies::Activity& part) {
    if (part.sum() > 0) out.emplace_back(name, part.sum() * model.watts(part));
  };
  for (const KernelShare& kind : r.time.kernels) {
    add(kind.kind, of_products(kind.kind) ? topologies::Activity{.products = kind.share}
                                          : topologies::Activity{.streams = kind.share});
  }
  if (r.time.kernels.empty()) add("kernels", {.products = all.products});
  if (r.time.slowed > 0) add("kernels beside collectives", {.streams = r.time.slowed});
  add("communication", {.communicating = all.communicating});
  add("waiting", {.spinning = all.spinning});
  add("no kernel", {.standing = all.standing});
  return out;
}

}  // namespace

topologies::Activity activity_of(const Report& r) {
  const TimeShare& t = r.time.share;
  topologies::Activity out;
  for (const KernelShare& kind : r.time.kernels)
    (of_products(kind.kind) ? out.products : out.streams) += kind.share;
  if (r.time.kernels.empty())
    out.products = t.compute;
  else
    out.streams += r.time.slowed;
  out.communicating = t.exposed_communication;
  out.spinning = t.waiting + t.bubble;
  out.standing = t.launch + t.input + t.server + t.idle;
  return out;
}

std::optional<schemes::DevicePower> device_power(const Report& r, const System& system,
                                                 const std::vector<DeviceSort>& sorts) {
  const topologies::Activity activity = activity_of(r);
  if (activity.sum() <= 0 || r.rate.samples_per_second <= 0) return {};
  schemes::DevicePower out;
  double devices = 0;
  // Others may compute while worker 0 waits, and wait while it computes.
  const auto name_of = [&](const DeviceSort& sort) { return limited_name(system.device(sort.first)); };
  const bool differ = !system.faults().empty() ||
                      std::any_of(sorts.begin(), sorts.end(),
                                  [&](const DeviceSort& sort) { return name_of(sort) != name_of(sorts[0]); });
  const topologies::Activity working{.products = activity.products, .streams = activity.streams};
  const double least = std::min(kLeastBusy, system.speed(sorts.front().first));
  const topologies::Activity waiting{.products = least * activity.products,
                                     .streams = least * activity.streams,
                                     .communicating = activity.communicating,
                                     .spinning = activity.spinning + (1 - least) * activity.kernels(),
                                     .standing = activity.standing};
  for (const DeviceSort& sort : sorts) {
    const Device& device = system.device(sort.first);
    if (device.kind == Device::Kind::cpu || device.watts <= 0) return {};
    const topologies::PowerModel model(device);
    const auto count = static_cast<double>(sort.devices.size());
    devices += count;
    out.watts += count * model.watts(activity);
    const auto [low, high] = model.interval(activity);
    out.low += count * (differ ? model.interval(waiting).first : low);
    out.high += count * (differ ? model.interval(working).second : high);
    for (const auto& [name, watts] : parts_of(r, model)) {
      const auto known = std::find_if(out.parts.begin(), out.parts.end(),
                                      [&, &part = name](const auto& p) { return p.first == part; });
      if (known == out.parts.end())
        out.parts.emplace_back(name, count * watts);
      else
        known->second += count * watts;
    }
  }
  out.watts /= devices;
  out.low /= devices;
  out.high /= devices;
  double sum = 0;
  for (const auto& [name, watts] : out.parts) sum += watts;
  for (auto& [name, share] : out.parts) share /= sum;
  std::stable_sort(out.parts.begin(), out.parts.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  const double all = out.watts * static_cast<double>(r.setup.devices);
  out.joules_per_sample = all / r.rate.samples_per_second;
  out.joules_per_step = out.joules_per_sample * static_cast<double>(r.setup.samples_per_iteration);
  return out;
}

}  // namespace tandem::sim
