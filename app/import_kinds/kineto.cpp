// SPDX-License-Identifier: Apache-2.0
// Traces of the PyTorch profiler -> where the time of a step goes.
#include "calibration/traces/kineto.h"

#include "app/import_kinds/traces.h"

namespace tandem::app {

void register_kineto(Registry<ImportKind>& registry) {
  registry.add(
      {.name = "kineto",
       .summary = "traces of the PyTorch profiler, plain or .gz, of one or several ranks: where the time of "
                  "a step goes, kernels by kind, collectives",
       .recognises = calibration::looks_like_kineto,
       .run =
           [](const Arguments& arguments, const std::vector<ImportFile>& files) {
             return import_traces(arguments, files, calibration::read_kineto);
           },
       .flags = trace_flags(),
       .large = true});
}

}  // namespace tandem::app
