// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/network_software.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/data.h"
#include "sim/cost/libraries.h"

namespace tandem::sim {
namespace {

const Json& libraries() {
  static const Json json = Json::load(data_root() + "/calibration/profiles/network_software.json");
  return json.at("libraries");
}

NetworkSoftware read(std::string_view library, std::string_view transport, const System& system,
                     bool required) {
  NetworkSoftware out;
  const Json* entry = libraries().find(std::string(library));
  if (entry == nullptr) {
    if (!required || library.empty()) return out;
    throw InputError(fmt::format("no network software \"{}\".{} Known: {}", printable(library),
                                 did_you_mean(std::string(library), libraries().keys()),
                                 fmt::join(libraries().keys(), ", ")));
  }
  entry->only({"summary", "thread", "threads", "handling", "sleeps", "transports", "source"});
  const double core = system.host().core_speed;
  if (const Json* rate = entry->find("handling")) out.handling = rate->as_bandwidth().bytes_per_second * core;
  const Json* way = entry->at("transports").find(std::string(transport));
  if (way == nullptr) return out;
  way->only(
      {"send", "receive", "message", "step", "trips", "flush", "whole", "protocols", "algorithms", "source"});
  if (const Json* step = way->find("step")) out.step = step->as_time().seconds();
  out.trips = static_cast<int>(way->integer("trips", 1, 1, 10));
  out.flush = way->boolean("flush", false);
  out.whole = way->boolean("whole", false);
  if (const Json* carried = way->find("protocols")) {
    for (const Json& name : carried->items()) out.protocols.push_back(name.as_text());
  }
  if (const Json* taken = way->find("algorithms")) out.algorithms = read_algorithms(*taken);
  if (const Json* message = way->find("message")) out.message = message->as_time().seconds() / core;
  if (way->find("send") == nullptr) return out;  // the NIC moves the bytes
  out.thread = entry->at("thread").as_text();
  out.threads = static_cast<int>(entry->integer("threads", 1, 1, 1000));
  out.sleeps = entry->boolean("sleeps", false);
  out.send = 1 / (way->at("send").as_bandwidth().bytes_per_second * core);
  out.receive = 1 / (way->at("receive").as_bandwidth().bytes_per_second * core);
  return out;
}

}  // namespace

NetworkSoftware network_software(std::string_view library, const System& system, bool required) {
  return read(library, system.transport(), system, required);
}

void carry(Library& library, const NetworkSoftware& transport, double latency) {
  constexpr auto network = static_cast<std::size_t>(HopClass::network);
  const std::vector<std::string>& carried = transport.protocols;
  for (Protocol& p : library.protocols) {
    const bool flushes = transport.flush && p.name == "simple";
    if (transport.whole) p.step[network] = 0;
    p.step[network] += transport.step + (transport.trips - 1 + flushes) * latency;
    if (!carried.empty() && std::find(carried.begin(), carried.end(), p.name) == carried.end())
      p.efficiency[network] = 0;
  }
  library.across_nodes = transport.algorithms;
}

double control_message(const System& system) {
  const Json& communication = system.communication();
  const std::string way(system.transport());
  return read("mpi", communication.is_object() ? communication.text("control", way) : way, system, true)
      .message;
}

}  // namespace tandem::sim
