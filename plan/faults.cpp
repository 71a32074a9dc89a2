// SPDX-License-Identifier: Apache-2.0
#include "plan/faults.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/data.h"

namespace tandem::plan {

namespace {

constexpr std::string_view kFaults = "plan/faults";

double bound_of(const Estimate& estimate, Luck luck, bool long_is_good) {
  if (luck == Luck::expected) return estimate.value;
  return (luck == Luck::best) == long_is_good ? estimate.high : estimate.low;
}

Estimate read_sourced(const Json& document, std::string_view key, double least, double most) {
  const Json& entry = document.at(key);
  entry.only({"value", "date", "source", "note"});
  entry.at("source").as_text();
  return read_estimate(entry.at("value"), least, most);
}

/// The file whose devices hold this one; else "others".
Json faults_of(const std::string& device, bool& own) {
  for (const std::string& name : list_data(kFaults)) {
    Json document = Json::load(find_data(kFaults, "kind of machine", name));
    const auto& devices = document.at("devices").items();
    own =
        std::any_of(devices.begin(), devices.end(), [&](const Json& one) { return one.as_text() == device; });
    if (own) return document;
  }
  return Json::load(find_data(kFaults, "kind of machine", "others"));
}

const Device& accelerator_of(const System& system) { return system.device(system.accelerator(0)); }

}  // namespace

FaultRates fault_rates(const System& system, std::optional<double> devices) {
  bool own = false;
  const Device& device = accelerator_of(system);
  const Json document = faults_of(device.name, own);
  document.only({"summary", "devices", "device_mtbf_hours", "restart_seconds", "repair_hours"});
  FaultRates out;
  out.kind = document.at("summary").as_text();
  out.devices = devices.value_or(static_cast<double>(system.accelerators().size()));
  out.node_mtbf = read_sourced(document, "device_mtbf_hours", 1, 1e9) * (3600 / out.devices);
  out.restart = read_sourced(document, "restart_seconds", 0, 1e7);
  out.repair = read_sourced(document, "repair_hours", 0, 1e6) * 3600.0;
  out.source = document.at("device_mtbf_hours").at("source").as_text();
  if (!own)
    out.notes.push_back(
        fmt::format("nobody has published how often machines of {} fail: figures are those of {}",
                    device.name, out.kind));
  return out;
}

answers::Failures failures(const FaultRates& rates, Luck luck, double interruptions, double read,
                           bool replaced) {
  answers::Failures out;
  const double per_second = 1 / bound_of(rates.node_mtbf, luck, true) + interruptions / 3600;
  out.node_mtbf = 1 / per_second;
  out.restart = bound_of(rates.restart, luck, false) + read;
  out.repair = replaced ? 0 : bound_of(rates.repair, luck, false);
  return out;
}

SpotRates spot_rates() {
  const Json document = Json::load(data_root() + "/plan/spot.json");
  document.only({"summary", "interruptions_per_hour", "away_hours"});
  return {read_sourced(document, "interruptions_per_hour", 0, 1000),
          read_sourced(document, "away_hours", 0, 1e6) * 3600.0,
          document.at("interruptions_per_hour").at("source").as_text()};
}

answers::Failures failures(const FaultRates& rates, Luck luck, const SpotRates& spot, double read) {
  const double taken = bound_of(spot.interruptions, luck, false);
  answers::Failures out = failures(rates, luck, taken, read, true);
  out.repair = bound_of(spot.away, luck, false) * taken / 3600 * out.node_mtbf;
  return out;
}

}  // namespace tandem::plan
