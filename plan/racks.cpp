// SPDX-License-Identifier: Apache-2.0
#include "plan/racks.h"

#include <fmt/format.h>

#include "answers/values.h"
#include "base/data.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "base/units.h"

namespace tandem::plan {

namespace {

using answers::parse_integer;
constexpr int64_t kMostUnits = 1000, kMostRacks = 1'000'000;

/// Of a node of the system; unset: no file says it.
std::optional<int64_t> rack_units(const Json& document, const std::string& system) {
  for (const Json& each : document.at("nodes").items()) {
    each.only({"systems", "value", "date", "source"});
    for (const Json& name : each.at("systems").items()) {
      if (name.as_text() == system) return each.at("value").as_int(1, kMostUnits);
    }
  }
  return {};
}

}  // namespace

double parse_draw(const std::string& text, const Place& place) {
  const double watts = parse_watts(text, place);
  if (!(watts >= 1)) throw InputError(place, fmt::format("\"{}\" is less than 1 W", printable(text)));
  return watts;
}

Racks parse_racks(const std::string& text, const Place& place) {
  const auto colon = text.find(':');
  Racks out;
  out.count = parse_integer(text.substr(0, colon), 1, kMostRacks, place);
  if (colon != std::string::npos) out.watts = parse_draw(text.substr(colon + 1), place);
  return out;
}

std::map<std::string, int64_t> parse_rack_units(const std::string& text, const Place& place) {
  std::map<std::string, int64_t> out;
  for (const std::string& each : split(text, ',')) {
    const auto equals = each.rfind('=');
    if (equals == std::string::npos || equals == 0)
      throw InputError(place, fmt::format("\"{}\" is no NAME=UNITS, such as dgx-h100=8", printable(each)));
    out[each.substr(0, equals)] = parse_integer(each.substr(equals + 1), 1, kMostUnits, place);
  }
  return out;
}

void check_racks(const Racks& racks, const std::string& system, int64_t nodes) {
  const Json document = Json::load(data_root() + "/plan/racks.json");
  const int64_t rack = document.at("rack").at("value").as_int(1, kMostUnits);
  const auto own = racks.units.find(system);
  const std::optional<int64_t> units =
      own != racks.units.end() ? std::optional(own->second) : rack_units(document, system);
  if (!units)
    throw InputError(fmt::format("how many rack units a node of {} takes is not known: say --rack-units {}=8",
                                 system, system));
  const int64_t most = rack / *units;
  if (racks.in_one(nodes) <= most) return;
  throw InputError(fmt::format("{} node{} of {} rack units do not fit in {} rack{} of {}: at most {}", nodes,
                               nodes == 1 ? "" : "s", *units, racks.count, racks.count == 1 ? "" : "s", rack,
                               most * racks.count));
}

}  // namespace tandem::plan
