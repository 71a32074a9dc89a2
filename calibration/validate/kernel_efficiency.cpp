// SPDX-License-Identifier: Apache-2.0
#include "calibration/validate/kernel_efficiency.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/data.h"
#include "base/text.h"
#include "schemes/setup/recipe.h"
#include "sim/cost/kernel_cost.h"
#include "topologies/devices/named_device.h"

namespace tandem::calibration {

namespace {

constexpr std::string_view kProfileFolder = "calibration/profiles";

double as_real(int64_t n) { return static_cast<double>(n); }

/// As the profile says, else those that the machine's words fit.
std::vector<Device> described(const MachineProfile& machine) {
  const std::string name = machine.device();
  return name.empty() ? devices_like(machine.machine(), machine.apart()) : std::vector{Device::load(name)};
}

/// A worker has one core of a processor, and the memory to itself if the others are idle.
Device as_a_worker_has(Device device) {
  if (device.kind != Device::Kind::cpu) return device;
  for (FlopRate& peak : device.peak) peak.flops_per_second /= std::max(1, device.units);
  device.units = 1;
  return device;
}

std::string why_none(const MachineProfile& machine, const std::vector<Device>& alike) {
  if (model_number(machine.machine()).empty()) return "The measured machine's name has no model number";
  if (alike.empty())
    return fmt::format("No device is described with the model number {}", model_number(machine.machine()));
  std::vector<std::string> names;
  for (const Device& d : alike) names.push_back(d.name);
  return fmt::format("Several described devices are as like the measured one: {}", fmt::join(names, ", "));
}

/// Attention stays in bf16 if products are in fp8; kernels without matrix products count in fp32.
double peak_of(const Device& d, KernelKind kind, Precision precision) {
  const bool attends = kind == KernelKind::attention;
  const bool product = attends || kind == KernelKind::gemm || kind == KernelKind::conv;
  if (!product) return d.peak_at(Precision::fp32).flops_per_second;
  return d.product_peak(attends && precision == Precision::fp8 ? Precision::bf16 : precision)
      .flops_per_second;
}

void add(KernelEfficiency& sum, const KernelEfficiency& k) {
  sum.shapes += k.shapes;
  sum.launches += k.launches;
  sum.seconds += k.seconds;
  sum.flops += k.flops;
  sum.bytes += k.bytes;
  sum.roofline += k.roofline;
  sum.stock += k.stock;
}

/// With three digits.
std::string three(double value) {
  return fmt::format("{:.{}f}", value, value >= 99.95 ? 0 : value >= 9.995 ? 1 : value >= 0.9995 ? 2 : 3);
}

}  // namespace

EfficiencyTable kernel_efficiency(const MachineProfile& machine, Precision precision) {
  EfficiencyTable out;
  out.precision = precision;
  const std::vector<Device> alike = described(machine);
  if (alike.size() == 1)
    out.device = as_a_worker_has(alike[0]);
  else
    out.missing = why_none(machine, alike);
  // The executor's tensors are laid out as in that recipe on GPUs; processors use the default recipe's
  // curves.
  out.recipe = machine.apart() ? "pytorch-channels-last" : std::string(kDefaultRecipe);
  std::optional<KernelCost> stock;
  if (out.device) stock.emplace(*out.device, precision, "stock", load_recipe(out.recipe));
  std::map<std::size_t, KernelEfficiency> groups;
  for (const KernelSample& s : machine.kernels().samples()) {
    const Kernel& k = s.kernel;
    out.counted = out.counted && s.launches > 0;
    KernelEfficiency one{std::string(name(k.kind)), std::string(name(k.pass)), 1,
                         std::max<int64_t>(1, s.launches)};
    const double times = as_real(one.launches), moved = as_real(k.read.n) + as_real(k.written.n);
    one.seconds = times * (s.seconds + machine.kernel_overhead());
    one.flops = times * as_real(k.flops.n);
    one.bytes = times * moved;
    if (out.device) {
      one.roofline = times * std::max(as_real(k.flops.n) / peak_of(*out.device, k.kind, precision),
                                      moved / out.device->memory_bandwidth.bytes_per_second);
      one.stock = times * stock->seconds(k);
    }
    KernelEfficiency& group =
        groups.try_emplace(KernelNeighbours::group(k), KernelEfficiency{one.kind, one.pass}).first->second;
    add(group, one);
    out.between += times * machine.kernel_overhead();
  }
  if (groups.empty())
    throw InputError(fmt::format("no kernels of {} were measured on {}", name(precision), machine.machine()));
  out.all.kind = "all";
  for (auto& [group, row] : groups) {
    add(out.all, row);
    out.rows.push_back(std::move(row));
  }
  return out;
}

std::vector<std::string> measured_profiles() {
  std::vector<std::string> out;
  for (const std::string& name : list_data(kProfileFolder)) {
    const Json document = Json::load(find_data(kProfileFolder, "profile", name));
    if (document.is_object() && document.text("schema", "") == "tandem-profile-1") out.push_back(name);
  }
  return out;
}

Json load_measured_profile(const std::string& name_or_file) {
  const auto measured = [] { return fmt::format("{}", fmt::join(measured_profiles(), ", ")); };
  const bool path = name_or_file.find('/') != std::string::npos || name_or_file.ends_with(".json");
  if (!path) {
    const std::vector<std::string> names = measured_profiles();
    const std::string name = spelled_as(name_or_file, names);
    if (std::find(names.begin(), names.end(), name) != names.end())
      return Json::load(find_data(kProfileFolder, "profile", name));
    const auto is_in = [&](std::string_view folder) {
      const auto all = list_data(folder);
      return std::find(all.begin(), all.end(), spelled_as(name_or_file, all)) != all.end();
    };
    const char* other = is_in("topologies/systems")   ? "a described system"
                        : is_in("topologies/devices") ? "a described device"
                        : is_in(kProfileFolder)       ? "a profile without measured kernels"
                                                      : nullptr;
    const std::string what = other != nullptr
                                 ? fmt::format("\"{}\" is {}.", printable(name_or_file), other)
                                 : fmt::format("no measured profile \"{}\".{}", printable(name_or_file),
                                               did_you_mean(name_or_file, names));
    throw InputError(
        fmt::format("{} Measured: {}; tandem measure and tandem fit make more", what, measured()));
  }
  Json document = Json::load(name_or_file);
  const std::string schema = document.is_object() ? document.text("schema", "") : "";
  if (schema == "tandem-measurements-1")
    document.fail("holds measurements: tandem fit makes a profile of them");
  if (schema != "tandem-profile-1")
    document.fail(
        fmt::format("is no profile of a measured machine (\"schema\": \"tandem-profile-1\"). "
                    "Measured: {}; tandem measure and tandem fit make more",
                    measured()));
  return document;
}

std::vector<std::string> efficiency_heads(const EfficiencyTable& table) {
  std::vector<std::string> out{"kind", "pass", "shapes", "launches", "time", "TFLOP/s", "GB/s"};
  if (table.device) out.insert(out.end(), {"of roofline", "stock / measured"});
  return out;
}

std::vector<std::string> efficiency_cells(const EfficiencyTable& table, const KernelEfficiency& row) {
  std::vector<std::string> out{row.kind,
                               row.pass,
                               std::to_string(row.shapes),
                               std::to_string(row.launches),
                               fmt::format("{:.1f} %", 100 * row.seconds / table.all.seconds),
                               three(row.flops / row.seconds / 1e12),
                               three(row.bytes / row.seconds / 1e9)};
  if (!table.device) return out;
  out.push_back(fmt::format("{:.0f} %", 100 * row.roofline / row.seconds));
  out.push_back(fmt::format("{:.2f}", row.stock / row.seconds));
  return out;
}

std::string efficiency_basis(const EfficiencyTable& table) {
  if (!table.device) return table.missing + ": no roofline and no stock curves.";
  const Device& d = *table.device;
  return fmt::format(
      "Roofline of {}{}: {} in products, {} in all other kernels, {}. Stock curves with recipe {}.",
      d.kind == Device::Kind::cpu ? "one core of " : "", d.name, to_text(d.product_peak(table.precision)),
      to_text(d.peak_at(Precision::fp32)), to_text(d.memory_bandwidth), table.recipe);
}

}  // namespace tandem::calibration
