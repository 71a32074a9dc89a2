// SPDX-License-Identifier: Apache-2.0
#include "exec/results/power.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "base/json.h"
#include "base/json_writer.h"
#include "exec/comm/ranks.h"

namespace tandem::exec {

namespace {

JsonWriter metered_json(const Metered& m) {
  JsonWriter out = {{"source", m.source}, {"missing", m.missing}, {"devices", JsonWriter::array()}};
  for (const MeteredDevice& d : m.devices)
    out["devices"].push_back({{"name", d.name},
                              {"readings", d.readings},
                              {"counter", d.counter},
                              {"watts", d.watts},
                              {"least", d.least},
                              {"most", d.most},
                              {"clock_mhz", d.clock_mhz},
                              {"memory_mhz", d.memory_mhz},
                              {"celsius", d.celsius},
                              {"by_power", d.by_power},
                              {"by_heat", d.by_heat},
                              {"seconds", d.seconds}});
  return out;
}

Metered read_metered(const Json& j) {
  Metered out{j.at("source").as_text(), {}, j.at("missing").as_text()};
  for (const Json& d : j.at("devices").items()) {
    const auto real = [&](const char* key) { return d.at(key).as_real(); };
    out.devices.push_back({d.at("name").as_text(), d.at("readings").as_int(0), d.at("counter").as_bool(),
                           real("watts"), real("least"), real("most"), real("clock_mhz"), real("memory_mhz"),
                           real("celsius"), real("by_power"), real("by_heat"), real("seconds")});
  }
  return out;
}

/// Of all processes.
Metered of_all_ranks(const Metered& own) {
  Metered out{own.source, {}, ""};
  for (const std::string& text : gather_over_ranks(metered_json(own).dump())) {
    const Metered more = read_metered(Json::parse(text, "a process's readings of power"));
    if (out.missing.empty()) out.missing = more.missing;
    for (const MeteredDevice& d : more.devices) {
      const bool known = std::any_of(out.devices.begin(), out.devices.end(),
                                     [&](const MeteredDevice& x) { return x.name == d.name; });
      if (!known) out.devices.push_back(d);
    }
  }
  return out;
}

DevicePower joined(const Metered& m, double step, int64_t samples) {
  DevicePower out;
  DevicePower::Readings r;
  r.source = m.source;
  r.devices = static_cast<int64_t>(m.devices.size());
  r.counter = true;
  r.least = m.devices[0].least;
  for (const MeteredDevice& d : m.devices) {
    r.count += d.readings;
    r.counter = r.counter && d.counter;
    r.least = std::min(r.least, d.least);
    r.most = std::max(r.most, d.most);
    r.celsius = std::max(r.celsius, d.celsius);
  }
  const auto mean = [&](double MeteredDevice::*of) {
    const double sum = std::accumulate(m.devices.begin(), m.devices.end(), 0.0,
                                       [&](double s, const MeteredDevice& d) { return s + d.*of; });
    return sum / static_cast<double>(m.devices.size());
  };
  r.clock_mhz = mean(&MeteredDevice::clock_mhz);
  r.memory_mhz = mean(&MeteredDevice::memory_mhz);
  r.held_by_power = mean(&MeteredDevice::by_power);
  r.held_by_heat = mean(&MeteredDevice::by_heat);
  r.seconds = mean(&MeteredDevice::seconds);
  out.watts = mean(&MeteredDevice::watts);
  out.joules_per_step = out.watts * static_cast<double>(r.devices) * step;
  out.joules_per_sample = out.joules_per_step / static_cast<double>(std::max<int64_t>(1, samples));
  out.readings = r;
  return out;
}

}  // namespace

std::unique_ptr<Meter> meter_of(const RunPlan& plan) {
  const Execution& e = plan.execution();
  const auto every = plan.keep().meter;
  if (every.count() <= 0 || e.backend->gauges == nullptr) return nullptr;
  std::vector<uint32_t> indices;
  for (uint32_t i = 0; i < plan.here(); ++i) indices.push_back(plan.device_index(plan.first_here() + i));
  PowerGauges gauges;
  try {
    gauges = e.backend->gauges(indices);
  } catch (const DeviceError& why) {
    gauges.missing = why.what();
  }
  return std::make_unique<Meter>(std::move(gauges), every);
}

void add_power(const RunPlan& plan, const Meter& meter, const std::vector<TimeSpan>& ran,
               ExecutionResult& out) {
  Metered found = meter.over(ran);
  if (plan.across_processes()) found = of_all_ranks(found);
  if (!found.missing.empty()) {
    // Few machines let anybody read their processors' counters; a folder that was named is asked for.
    if (!plan.execution().backend->on_processors || std::getenv("TANDEM_POWERCAP") != nullptr)
      out.report.notes.push_back(fmt::format("power not known: {}", found.missing));
    return;
  }
  const double seconds = std::accumulate(out.iteration_seconds.begin(), out.iteration_seconds.end(), 0.0);
  out.report.time.power = joined(found, seconds / static_cast<double>(out.iteration_seconds.size()),
                                 out.report.setup.samples_per_iteration);
}

}  // namespace tandem::exec
