// SPDX-License-Identifier: Apache-2.0
#include "topologies/devices/device.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/data.h"

namespace tandem::topologies {

namespace {

Device::Kind parse_kind(const Json& value) {
  const std::string& text = value.as_text();
  if (text == "gpu") return Device::Kind::gpu;
  if (text == "cpu") return Device::Kind::cpu;
  if (text == "tpu") return Device::Kind::tpu;
  value.fail(fmt::format("\"{}\" is not a kind of device.{} Valid: gpu, cpu, tpu", printable(text),
                         did_you_mean(text, {"gpu", "cpu", "tpu"})));
}

std::array<FlopRate, kPrecisions> by_precision(const Json& rates) {
  std::array<FlopRate, kPrecisions> out{};
  for (const auto& [key, rate] : rates.members()) {
    const Precision precision = parse_precision(key, rate.place());
    out[static_cast<std::size_t>(precision)] = rate.as_flop_rate();
    if (rate.as_flop_rate().flops_per_second > 1e21) rate.fail("a peak of at most 1000000PFLOP/s is allowed");
  }
  return out;
}

}  // namespace

Device Device::from_json(const Json& document) {
  document.only({"name",
                 "summary",
                 "kind",
                 "vendor",
                 "architecture",
                 "kernels",
                 "year",
                 "peak",
                 "best_product",
                 "fp32_products",
                 "memory_bandwidth",
                 "memory",
                 "usable_memory",
                 "units",
                 "boost_mhz",
                 "launch",
                 "watts",
                 "sources",
                 "unverified",
                 "note"});
  Device d;
  d.name = document.at("name").as_text();
  d.summary = document.at("summary").as_text();
  d.kind = parse_kind(document.at("kind"));
  d.vendor = document.text("vendor", "");
  d.architecture = document.at("architecture").as_text();
  d.kernels = document.text("kernels", d.architecture);
  d.year = static_cast<int>(document.integer("year", 0, 0, 3000));
  const Json& peak = document.at("peak");
  d.peak = by_precision(peak);
  if (const Json* best = document.find("best_product")) d.best_product = by_precision(*best);
  if (d.peak_at(Precision::fp32).flops_per_second <= 0) {
    peak.fail("a peak of \"fp32\" above 0 is needed: it is what unsupported formats fall back to");
  }
  if (const Json* format = document.find("fp32_products")) {
    d.fp32_products = parse_precision(format->as_text(), format->place());
    if (d.peak_at(d.fp32_products).flops_per_second <= 0)
      format->fail(fmt::format("no peak of {} is given", base::name(d.fp32_products)));
  }
  d.memory_bandwidth = document.at("memory_bandwidth").as_bandwidth();
  if (d.memory_bandwidth.bytes_per_second < 1 || d.memory_bandwidth.bytes_per_second > 1e18) {
    document.at("memory_bandwidth").fail("must be from 1B/s to 1000000TB/s");
  }
  d.memory = document.at("memory").as_bytes();
  if (d.memory.n <= 0) document.at("memory").fail("must be above 0");
  // The figures that there are lie between 97.6 % (RTX A4000) and 99.3 % (GTX 1080 Ti) where error correction
  // does not take its part (T4, A10G, L40S).
  d.usable = {d.kind == Device::Kind::gpu ? d.memory.n / 1000 * 985 : d.memory.n};
  if (const Json* usable = document.find("usable_memory")) {
    d.usable = usable->as_bytes();
    if (d.usable.n <= 0 || d.usable > d.memory) usable->fail("must be above 0 and at most \"memory\"");
  }
  d.units = static_cast<int>(document.at("units").as_int(1, 10'000'000));
  d.boost_mhz = document.real("boost_mhz", 0, 0, 1e5);
  if (const Json* launch = document.find("launch")) d.launch = launch->as_time();
  d.watts = document.real("watts", 0, 0, 1e6);
  return d;
}

Device Device::load(const std::string& name_or_file, const Place& place) {
  std::string file;
  try {
    file = find_data("topologies/devices", "device", name_or_file, place);
  } catch (const InputError& unknown) {
    throw InputError(std::string(unknown.what()) +
                     "; one that is not there is a file of ten lines (docs/own-device.md)");
  }
  std::error_code none;
  if (!place.file || std::filesystem::exists(file, none)) return from_json(Json::load(file));
  throw InputError(
      place,
      fmt::format("there is no file \"{}\" of a device; a path in a system's file counts from that file",
                  printable(name_or_file)));
}

}  // namespace tandem::topologies
