// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/overlap.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "base/data.h"
#include "base/json.h"

namespace tandem::sim {
namespace {

/// Bandwidths in bytes/s.
struct Data {
  std::vector<std::string> families;
  std::map<std::string, double> rate, traffic;
  double each = 0, most = 0, streams = 1;
};

Data read() {
  const Json json = Json::load(data_root() + "/calibration/profiles/overlap.json");
  json.only({"families", "channels", "traffic", "streams", "streams_source"});
  Data out;
  for (const Json& family : json.at("families").items()) out.families.push_back(family.as_text());
  const Json& channels = json.at("channels");
  channels.only({"rate", "each", "most", "source"});
  for (const auto& [name, rate] : channels.at("rate").members())
    out.rate[name] = std::max(1.0, rate.as_bandwidth().bytes_per_second);
  out.each = channels.at("each").as_real(0, 64);
  out.most = channels.at("most").as_real(1, 1024);
  for (const auto& [name, times] : json.at("traffic").members()) {
    if (name != "source") out.traffic[name] = times.as_real(0, 100);
  }
  out.streams = json.at("streams").as_real(0.01, 1);
  return out;
}

const Data& data() {
  static const Data known = read();
  return known;
}

double named(const std::map<std::string, double>& figures, const std::string& name, const char* other) {
  const auto found = figures.find(name);
  return found != figures.end() ? found->second : figures.at(other);
}

/// Bytes that a rank puts on the bus per byte of the buffer.
double on_bus(CollKind kind, double ranks) {
  if (kind == CollKind::broadcast || kind == CollKind::reduce || kind == CollKind::shift) return 1;
  return (kind == CollKind::all_reduce ? 2 : 1) * (ranks - 1) / ranks;
}

bool in_kernels(const Library& library, const Device& device) {
  const std::string family = library.name.substr(0, library.name.find('-'));
  const auto& families = data().families;
  return device.kind == Device::Kind::gpu &&
         std::find(families.begin(), families.end(), family) != families.end();
}

}  // namespace

void occupy(Transfer& t, const Running& c, const Library& library, const Device& device) {
  if (c.ranks < 2 || !in_kernels(library, device)) return;
  const Data& d = data();
  const double bus = on_bus(c.kind, c.ranks);
  if (c.in_switch) {
    t.units = library.switch_channels;
    t.traffic = d.traffic.at("switch");
    return;
  }
  const double rate = c.seconds_per_byte > 0 ? bus / c.seconds_per_byte : 0;
  const double channels = std::max(1.0, std::round(rate / named(d.rate, device.architecture, "other")));
  t.units = std::min(d.most, d.each * channels);
  t.traffic = bus * named(d.traffic, std::string(c.protocol), "simple");
}

double blocks_of(double bytes, std::string_view protocol, double ranks, double most) {
  const double least = protocol == "ll" ? 512 * 8 * ranks : protocol == "ll128" ? 640 * 8 : 512 * 64;
  return std::clamp(std::floor(bytes / least), 1.0, std::max(1.0, most));
}

Taken taken(const Transfer& t, double seconds, const Device& device) {
  if (t.units <= 0 || seconds <= 0) return {};
  constexpr double kMost = 0.9;  // a kernel that holds multiprocessors goes on
  const double memory = device.memory_bandwidth.bytes_per_second * data().streams;
  return {std::min(kMost, t.units / std::max(1, device.units)),
          std::min(1.0, t.bytes * t.traffic / seconds / memory)};
}

Beside beside(const Taken& taken, bool product, double memory) {
  const double asked = std::max(1.0, (product ? memory : 1) + taken.memory);
  return {product ? std::max(asked, 1 / (1 - taken.units)) : asked, asked};
}

Beside beside_on_processor(bool own_cores, bool polls, double busy) {
  if (own_cores) return {};
  if (polls) return {2, 1, 0};
  busy = std::min(busy, 1.0);
  return {1 / (1 - std::min(busy, 0.5)), std::max(1.0, 2 * busy), 0};
}

}  // namespace tandem::sim
