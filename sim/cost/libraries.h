// SPDX-License-Identifier: Apache-2.0
#pragma once
// Communication libraries as calibration/profiles/links.json describes them, by family and version. Any
// thread may call.
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "sim/cost/library_version.h"
#include "sim/cost/link_profile.h"
#include "topologies/system.h"

namespace tandem::sim {

/// The entry for the system's communication "library" ("nccl-2.18": the newest entry of that family not newer
/// than 2.18; without a version the newest) with the system's own overrides under "communication" applied.
/// Systems that do not say: nccl for GPUs, "mpi" for CPUs, "xla" for TPUs. Throws InputError naming the
/// families, or the nearest algorithm to one that nobody knows. `speed`: Speeds::library.
Library library_of(const System& system, double speed = 1);

/// Names of layouts and collectives. Throws InputError at one that nobody knows, naming the nearest.
std::vector<std::string> read_algorithms(const Json& names);

}  // namespace tandem::sim
