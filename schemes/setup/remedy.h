// SPDX-License-Identifier: Apache-2.0
#pragma once
// What to change of a prediction whose model does not fit, as data.
#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/json_writer.h"
#include "base/units.h"

namespace tandem::schemes {

/// Changes that together let the model fit.
struct Remedy {
  struct Change {
    std::string option;  ///< of predict, by its long name: "recompute"
    std::string value;   ///< takes the place of what was given; of "set" it is added to that
    bool operator==(const Change&) const = default;
  };
  std::vector<Change> changes;
  int64_t devices = 1;     ///< with the changes; "devices" is one of them where more are needed than asked
  Bytes needed, capacity;  ///< of a device then
};

/// One of a report's "remedies".
JsonWriter remedy_json(const Remedy& remedy);
/// Throws InputError.
Remedy read_remedy(const Json& document);

}  // namespace tandem::schemes
