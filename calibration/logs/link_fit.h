// SPDX-License-Identifier: Apache-2.0
#pragma once
// What measured links change about a system.
#include <string>
#include <vector>

#include "base/json.h"
#include "calibration/logs/link_tests.h"
#include "topologies/system.h"

namespace tandem::calibration {

/// What the measurements say about one figure of a system's file.
struct LinkFit {
  std::string path;  ///< "links.pcie.achieved", "peer_access.staged_cap"
  double before = 0, after = 0;
  std::size_t figures = 0;  ///< that it is the median of
};

struct FittedLinks {
  Json document;              ///< the system's file with its links at what was measured
  std::vector<LinkFit> fits;  ///< at least one
};

/// Puts devices in the order of their buses, as a system's file has them, where all buses are told: CUDA may
/// count the fastest first. Notes a change.
void order_by_bus(LinkTests& tests, std::vector<std::string>& notes);

/// Fractions of the nominal bandwidths, rates of copies through the host with and without peer access, each
/// the median over the pairs (or host copies, where no pair tells). A pair of which nothing tells whether it
/// has peer access counts for both ways, so that it does not matter which one the file allows. Where the
/// devices have access that the file's "reach" does not know, or lack what it expects, the reach changes.
/// Appends what changed and what contradicts to `notes`. Throws InputError when a node has fewer accelerators
/// than the tests speak of, when devices that a cable joins have no access, or nothing applies.
FittedLinks fit_links(LinkTests tests, Json document, std::vector<std::string>& notes);

}  // namespace tandem::calibration
