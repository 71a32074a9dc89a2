// SPDX-License-Identifier: Apache-2.0
// Descriptions of one machine -> a system file. Every reader of topologies/import is a kind of its own.
#include <algorithm>

#include "app/console/output.h"
#include "app/import_kind.h"
#include "sim/cost/libraries.h"
#include "topologies/import/importer.h"
#include "topologies/system.h"

namespace tandem::app {

namespace {

int import_system(const Arguments& arguments, const std::vector<ImportFile>& files) {
  std::vector<Machine> machines;
  for (const SystemImporter& importer : import_registry().all()) {  // the most detailed first
    for (const ImportFile& file : files) {
      if (file.kind == importer.name) machines.push_back(importer.read(file.text, file.name));
    }
  }
  ImportChoices choices{.name = arguments.text("name", ""),
                        .device = arguments.text("device", ""),
                        .cpu = arguments.text("cpu", ""),
                        .library = arguments.text("library", ""),
                        .nic = {}};
  if (arguments.has("nic")) choices.nic = arguments.value("nic", "", parse_bandwidth);
  const Machine machine = merge(std::move(machines));
  std::vector<std::string> notes = machine.notes;
  const std::string text = system_text(machine, choices, notes);
  // What is handed out can be read back, and --library is one that is known.
  library_of(System::from_json(Json::parse(text, "the system as imported")));
  for (const std::string& remark : notes) note(arguments, remark);
  put_result(arguments, text);
  return 0;
}

}  // namespace

void register_system(Registry<ImportKind>& registry) {
  const std::vector<Flag> flags = {
      {"name", "TEXT", "what to call the system (default: imported)"},
      {"device", "NAME", "model of the GPUs, where the dump does not say it (tandem list devices)"},
      {"cpu", "NAME", "model of the CPUs (default: what the dump says, else generic-cpu)"},
      {"library", "NAME",
       "nccl-2.28, rccl, ...: decides about peer access through the host (default: the newest)"},
      {"nic", "RATE", "rate of a NIC port, 100Gbit/s, where the dump does not say it"}};
  for (const SystemImporter& importer : import_registry().all())
    registry.add({importer.name, importer.summary, importer.recognises, import_system, flags});
}

}  // namespace tandem::app
