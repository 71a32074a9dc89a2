// SPDX-License-Identifier: Apache-2.0
#include "schemes/setup/remedy.h"

namespace tandem::schemes {

JsonWriter remedy_json(const Remedy& r) {
  JsonWriter out = {{"changes", JsonWriter::array()},
                    {"devices", r.devices},
                    {"needs_bytes", r.needed.n},
                    {"capacity_bytes", r.capacity.n}};
  for (const auto& [option, value] : r.changes)
    out["changes"].push_back({{"option", option}, {"value", value}});
  return out;
}

Remedy read_remedy(const Json& d) {
  Remedy out;
  for (const Json& change : d.at("changes").items())
    out.changes.push_back({change.at("option").as_text(), change.at("value").as_text()});
  out.devices = d.at("devices").as_int(1);
  out.needed.n = d.at("needs_bytes").as_int(0);
  out.capacity.n = d.at("capacity_bytes").as_int(0);
  return out;
}

}  // namespace tandem::schemes
