// SPDX-License-Identifier: Apache-2.0
#include "app/show/lists.h"

#include "app/console/cli.h"
#include "base/data.h"
#include "calibration/validate/fitted.h"
#include "exec/device/backend.h"
#include "models/graph.h"
#include "schemes/collectives/collectives.h"
#include "schemes/schedules/pipeline_schedule.h"
#include "schemes/setup/scheme.h"
#include "sim/cost/layout.h"
#include "topologies/system.h"

namespace tandem::app {

namespace {

template <typename Entries>
Table named(const Entries& entries) {
  Table table({{"name"}, {"summary"}});
  for (const auto& e : entries) table.add({std::string(e.name), std::string(e.summary)});
  return table;
}

Table kernels() {
  Table table({{"name"}, {"summary"}});
  for (int k = 0; k < kKernelKinds; ++k) {
    const auto kind = static_cast<KernelKind>(k);
    table.add({std::string(name(kind)), std::string(summary(kind))});
  }
  return table;
}

/// Profiles of kernels only, described or measured: the folder also holds collectives.
Table profiles() {
  Table table({{"name"}, {"summary"}});
  for (const std::string& name : list_data("calibration/profiles")) {
    const Json json = Json::load(find_data("calibration/profiles", "profile", name));
    if (json.find("architectures") != nullptr || json.text("schema", "") == "tandem-profile-1")
      table.add({name, json.text("summary", "")});
  }
  return table;
}

/// Constants that were fitted to published rates, and to which.
Table constants() {
  Table table({{"file"}, {"constant"}, {"set on"}});
  for (const FittedConstant& c : fitted_constants()) table.add({c.file, c.name, c.rows});
  return table;
}

}  // namespace

const std::vector<ListKind>& list_kinds() {
  static const std::vector<ListKind> all = {
      {"models", [] { return named(list_models()); }},
      {"systems", [] { return named(list_systems()); },
       "\nAny card in a typical desktop or server: DEVICE-Nx, as rtx-4080-2x or l20-4x (N from 1 to "
       "8).\n"
       "One of your own: tandem import, or a file (docs/formats/system.md).\n"},
      {"devices", [] { return named(list_devices()); },
       "\nOne that is not listed is a file of ten lines: docs/own-device.md, --swap "
       "device=./my-card.json.\n"},
      {"schemes", [] { return named(list_schemes()); }},
      {"recipes", [] { return named(list_recipes()); }},
      {"backends", [] { return named(backends_registry().all()); }},
      {"collectives", [] { return named(collectives_registry().all()); }},
      {"schedules", [] { return named(schedules_registry().all()); }},
      {"layouts", [] { return named(layouts_registry().all()); }},
      {"kernels", kernels},
      {"layers", [] { return named(layers_registry().all()); }},
      {"optimizers", [] { return named(optimizers()); }},
      {"profiles", profiles},
      {"constants", constants},
      {"verbs", [] { return named(verbs_registry().all()); }},
  };
  return all;
}

std::vector<std::string> listed_names(std::string_view wanted) {
  std::vector<std::string> out;
  for (const ListKind& kind : list_kinds()) {
    if (kind.name != wanted && kind.name.substr(0, kind.name.size() - 1) != wanted) continue;
    const Table table = kind.table();
    for (const auto& row : table.rows()) out.push_back(row[0]);
  }
  return out;
}

}  // namespace tandem::app
