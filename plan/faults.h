// SPDX-License-Identifier: Apache-2.0
#pragma once
// How often machines fail and how long that costs, as data (plan/faults/*.json): defaults for --node-mtbf and
// what belongs to it, where the user knows nothing better.
#include <optional>
#include <string>
#include <vector>

#include "answers/aims.h"
#include "plan/estimate.h"
#include "topologies/system.h"

namespace tandem::plan {

/// Of one kind of machine. Seconds.
struct FaultRates {
  std::string kind;    ///< "servers of H100 and H200"
  double devices = 1;  ///< of the node
  Estimate node_mtbf;  ///< of a node: between interruptions that nobody planned, of all causes
  Estimate restart;    ///< from a failure until the job computes again, without reading a checkpoint
  Estimate repair;     ///< in which a failed node is away; the mean, which few long repairs dominate
  std::string source;
  std::vector<std::string> notes;  ///< one sentence each, such as which neighbour's figures these are
};

/// Of nodes of a system in which that many devices train (default: all that a node has; a mean over nodes):
/// rates of its accelerators, or where nobody has published any of those, of GPU servers of all kinds;
/// `notes` then says so. A node's rate is proportional to its devices. O(files). Throws InputError for a data
/// file that cannot be read.
FaultRates fault_rates(const System& system, std::optional<double> devices = {});

/// Of spot machines whose seller does not say how often they are taken away (plan/spot.json).
struct SpotRates {
  Estimate interruptions;  ///< an hour and node
  Estimate away;           ///< seconds until another node can be had; the mean
  std::string source;
};
SpotRates spot_rates();

/// Which end of the bounds is meant: `worst` fails most often and comes back last.
enum class Luck : uint8_t { worst, expected, best };

/// The options of `tandem predict` that these rates mean. `interruptions`: of a spot offer, an hour and node,
/// in addition. `read`: seconds to read a checkpoint back. `replaced`: a failed node's place is taken at once
/// (rented ones mostly are), so that nothing is away for repair.
answers::Failures failures(const FaultRates& rates, Luck luck, double interruptions, double read,
                           bool replaced);
/// The same for spot nodes: those that fail are replaced at once, those that are taken away stay so for a
/// while. Failures::repair is the mean over both.
answers::Failures failures(const FaultRates& rates, Luck luck, const SpotRates& spot, double read);

}  // namespace tandem::plan
