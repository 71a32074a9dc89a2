// SPDX-License-Identifier: Apache-2.0
#pragma once
// Readers of what other tools say about a machine. Each is one file in topologies/import and one word in
// topologies/CMakeLists.txt.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/registry.h"
#include "base/units.h"
#include "topologies/import/machine.h"

namespace tandem::topologies {

struct SystemImporter {
  std::string_view name, summary;
  /// Whether a text looks like this format; never throws.
  bool (*recognises)(std::string_view text);
  /// `file` is what messages call the text. Throws InputError with the line where it is damaged, cut short or
  /// says nothing about a machine. O(size of the text) but for the pairs of devices.
  Machine (*read)(std::string_view text, const std::string& file);
};

/// Generated from the list in topologies/CMakeLists.txt. In order of detail: of two sources that contradict
/// each other the one of the earlier reader is believed.
const Registry<SystemImporter>& import_registry();

/// One machine out of several descriptions of it, most detailed first (at least one). What a source leaves
/// open is taken from the next that knows; every contradiction is named in the notes.
Machine merge(std::vector<Machine> sources);

/// What a dump cannot say and a user may.
struct ImportChoices {
  std::string name;     ///< of the system; empty: "imported"
  std::string device;   ///< model or file of every GPU, or of each, by commas; empty: what the dump says
  std::string cpu;      ///< model of every CPU; empty: what the dump says, else generic-cpu
  std::string library;  ///< "nccl-2.28"; decides on peer access through the host; empty: the newest known
  std::optional<std::string> folder{};  ///< that the file will lie in: paths of devices count from it
  Bandwidth nic;                        ///< of each NIC port whose speed the dump leaves open; 0 = unknown
};

/// The system file (topologies/systems) of a machine, ready for System::load. Appends to `notes` what was
/// assumed. Throws InputError when the GPUs are of no known model and `choices` names none.
std::string system_text(const Machine& machine, const ImportChoices& choices,
                        std::vector<std::string>& notes);

}  // namespace tandem::topologies
