// SPDX-License-Identifier: Apache-2.0
#include "schemes/report/device_power.h"

namespace tandem::schemes {

JsonWriter power_json(const DevicePower& p) {
  JsonWriter out = {{"watts_per_device", p.watts},
                    {"joules_per_step", p.joules_per_step},
                    {"joules_per_sample", p.joules_per_sample}};
  if (p.high > 0) out["interval"] = {{"low", p.low}, {"high", p.high}, {"level", 0.9}};
  for (const auto& [name, share] : p.parts) out["parts"].push_back({{"name", name}, {"share", share}});
  if (const auto& r = p.readings)
    out["readings"] = {{"source", r->source},
                       {"devices", r->devices},
                       {"count", r->count},
                       {"energy_counter", r->counter},
                       {"least_watts", r->least},
                       {"most_watts", r->most},
                       {"clock_mhz", r->clock_mhz},
                       {"memory_clock_mhz", r->memory_mhz},
                       {"celsius", r->celsius},
                       {"held_by_power", r->held_by_power},
                       {"held_by_heat", r->held_by_heat},
                       {"seconds_each", r->seconds}};
  return out;
}

DevicePower read_power(const Json& d) {
  DevicePower out;
  out.watts = d.real("watts_per_device", 0, 0);
  out.joules_per_step = d.real("joules_per_step", 0, 0);
  out.joules_per_sample = d.real("joules_per_sample", 0, 0);
  if (const Json* interval = d.find("interval")) {
    out.low = interval->real("low", 0, 0);
    out.high = interval->real("high", 0, 0);
  }
  if (const Json* parts = d.find("parts"))
    for (const Json& part : parts->items())
      out.parts.emplace_back(part.at("name").as_text(), part.real("share", 0, 0, 1));
  if (const Json* r = d.find("readings"))
    out.readings = {.source = r->text("source", ""),
                    .devices = r->integer("devices", 0, 0),
                    .count = r->integer("count", 0, 0),
                    .counter = r->boolean("energy_counter", false),
                    .least = r->real("least_watts", 0, 0),
                    .most = r->real("most_watts", 0, 0),
                    .clock_mhz = r->real("clock_mhz", 0, 0),
                    .memory_mhz = r->real("memory_clock_mhz", 0, 0),
                    .celsius = r->real("celsius", 0),
                    .held_by_power = r->real("held_by_power", 0, 0, 1),
                    .held_by_heat = r->real("held_by_heat", 0, 0, 1),
                    .seconds = r->real("seconds_each", 0, 0)};
  return out;
}

}  // namespace tandem::schemes
