// SPDX-License-Identifier: Apache-2.0
// Descriptions of one machine -> a system file. Every reader of topologies/import is a separate kind.
#include "app/import_kinds/machine.h"
#include "topologies/import/importer.h"

namespace tandem::app {

void register_system(Registry<ImportKind>& registry) {
  const std::vector<Option> flags = {
      {"name", "TEXT", "what to call the system (default: as the file of --out, else imported)"},
      {"device", "NAME|FILE[,...]",
       "model of the GPUs, where the dump does not say it (tandem list devices); of different cards one for "
       "each, in the "
       "order of the dump"},
      {"cpu", "NAME|FILE", "model of the CPUs (default: what the dump says, else generic-cpu)"},
      {"library", "NAME",
       "nccl-2.28, rccl, ...: decides about peer access through the host (default: the newest)"},
      {"nic", "RATE", "rate of a NIC port, 100Gbit/s, where the dump does not say it"}};
  for (const SystemImporter& importer : import_registry().all())
    registry.add({importer.name, importer.summary, importer.recognises, import_machine, flags});
}

}  // namespace tandem::app
