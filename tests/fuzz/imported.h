// SPDX-License-Identifier: Apache-2.0
#pragma once
// What every reader of topologies/import owes: refuse with InputError, or yield a machine whose system file
// can be read back and routed.
#include <cstdlib>
#include <string>
#include <string_view>

#include "topologies/import/importer.h"
#include "topologies/system.h"

namespace tandem::tests::fuzz {

inline void imported(std::string_view kind, std::string_view bytes) {
  const SystemImporter& importer = import_registry().at(kind);
  for (const SystemImporter& each : import_registry().all()) each.recognises(bytes);
  Machine machine;
  try {
    machine = importer.read(bytes, "fuzz");
  } catch (const InputError&) {
    return;
  }
  // What was accepted must go all the way: an error here is not the input's.
  ImportChoices choices;
  choices.device = "v100-sxm2-16gb";
  const std::size_t gpus = machine.gpus.size(), cpus = machine.cpus.size();
  const Machine joined = merge({machine, machine});
  std::vector<std::string> notes;
  const std::string text = system_text(joined, choices, notes);
  try {
    const System system = System::from_json(Json::parse(text, "imported"));
    if (system.accelerators().size() != (gpus > 0 ? gpus : cpus)) std::abort();
    system.route(system.accelerator(0), system.accelerator(system.accelerator_count() - 1));
  } catch (const InputError&) {
    std::abort();
  }
}

}  // namespace tandem::tests::fuzz
