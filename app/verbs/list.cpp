// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "app/console/cli.h"
#include "app/console/output.h"
#include "app/console/table.h"
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

struct ListKind {
  std::string_view name;
  Table (*table)();
  std::string_view more = {};  ///< below the table, for people
};

const std::vector<ListKind>& kinds() {
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

int list(const Arguments& arguments) {
  const std::string format = format_of(arguments);
  const std::string& wanted = arguments.words()[0];
  std::vector<std::string> names;
  for (const ListKind& kind : kinds()) {
    names.emplace_back(kind.name);
    if (wanted == kind.name || wanted + "s" == kind.name) {
      const Table table = kind.table();
      const std::string_view more = format == "text" ? kind.more : std::string_view();
      put_page(arguments, format == "text" ? table.text(false, result_columns(arguments)) + std::string(more)
                                           : table.as(format));
      return 0;
    }
  }
  std::string valid;
  for (const std::string& n : names) valid += (valid.empty() ? "" : ", ") + n;
  throw UsageError(
      fmt::format("no list of \"{}\".{} Valid: {}", printable(wanted), did_you_mean(wanted, names), valid));
}

}  // namespace

void register_list(Registry<Verb>& registry) {
  registry.add(
      {.name = "list",
       .summary =
           "what there is: models, systems, devices, schemes, backends, collectives, schedules, kernels, "
           "layers, optimizers, profiles, constants",
       .usage = "KIND [options]",
       .flags = {format_flag(), out_flag(), quiet_flag()},
       .least_words = 1,
       .most_words = 1,
       .run = list,
       .details = "KIND is models, systems, devices, schemes, backends, collectives, schedules, kernels, "
                  "layers, optimizers, profiles, constants (fitted to published rates) or verbs."});
}

}  // namespace tandem::app
