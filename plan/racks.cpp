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

Json document() { return Json::load(data_root() + "/plan/racks.json"); }

/// Of a rack.
int64_t rack_units() { return document().at("rack").at("value").as_int(1, kMostUnits); }

/// Of a node of the system.
int64_t units_of(const Racks& racks, const std::string& system) {
  if (const auto own = racks.units.find(system); own != racks.units.end()) return own->second;
  const Json known = document();
  for (const Json& each : known.at("nodes").items()) {
    each.only({"systems", "value", "date", "source"});
    for (const Json& name : each.at("systems").items()) {
      if (name.as_text() == system) return each.at("value").as_int(1, kMostUnits);
    }
  }
  throw InputError(fmt::format("how many rack units a node of {} takes is not known: say --rack-units {}=8",
                               system, system));
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

int64_t most_nodes(const Racks& racks, const std::string& system) {
  return rack_units() / units_of(racks, system) * racks.count;
}

void check_racks(const Racks& racks, const std::string& system, int64_t nodes) {
  const int64_t most = most_nodes(racks, system);
  if (nodes <= most) return;
  throw InputError(fmt::format("{} node{} of {} rack units do not fit in {} rack{} of {}: at most {}", nodes,
                               nodes == 1 ? "" : "s", units_of(racks, system), racks.count,
                               racks.count == 1 ? "" : "s", rack_units(), most));
}

}  // namespace tandem::plan
