// SPDX-License-Identifier: Apache-2.0
// Chakra execution traces -> where the time of a step goes.
#include "calibration/traces/chakra.h"

#include "app/import_kinds/traces.h"

namespace tandem::app {

void register_chakra(Registry<ImportKind>& registry) {
  registry.add(
      {.name = "chakra",
       .summary =
           "Chakra execution traces (.et), plain or .gz, of one or several ranks: the same, scheduled where "
           "the file has no starts",
       .recognises = calibration::looks_like_chakra,
       .run =
           [](const Arguments& arguments, const std::vector<ImportFile>& files) {
             return import_traces(arguments, files, calibration::read_chakra);
           },
       .flags = trace_flags(),
       .large = true});
}

}  // namespace tandem::app
