// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a communication library costs around the links: start-up, per-step latencies and achieved fractions
// per protocol and class of hop. Data: calibration/profiles/links.json, fitted by
// calibration/fit/fit_collectives.py.
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "topologies/system.h"

namespace tandem::sim {

/// What a hop between two ranks of a collective crosses, worst part first decides.
enum class HopClass : uint8_t {
  fabric,   ///< NVLink, xGMI, ICI and the like only
  pcie,     ///< peer access over PCIe
  host,     ///< staged through host memory
  network,  ///< between nodes
};
inline constexpr int kHopClasses = 4;
using PerHop = std::array<double, kHopClasses>;

/// One wire protocol of a library (NCCL: ll, ll128, simple). Seconds and fractions.
struct Protocol {
  std::string name;
  double base = 0;      ///< of every collective
  PerHop step{};        ///< software latency of one sequential step, besides the route's own
  PerHop efficiency{};  ///< of the links' usable bandwidth; 0 = the protocol cannot run over this class.
                        ///< In the data file, with "of_counted", of what NCCL counts of fast links' cables
  double most = 0;      ///< bytes of the largest message, per channel, that it is chosen for; 0: any
  double copy = 1;  ///< of what a channel's cores copy at most, that grouped sends reach between fast links
  /// NCCL's LL and LL128 send words that say themselves that they have arrived; others send bulk, then a
  /// flag.
  bool sends_words() const { return name == "ll" || name == "ll128"; }
};

/// How a benchmark drives the library (nccl-tests: -t, -g, -n). What it reports is more than the collective
/// takes: one thread launches the kernels of all its devices one by one, and the loop starts and ends with
/// all devices idle.
struct Harness {
  int threads = 1;  ///< of one process
  int gpus_per_thread = 1;
  int iterations = 20;  ///< between two clock readings
  bool operator==(const Harness&) const = default;
};

struct Library {
  std::string name, source;
  std::vector<std::string> algorithms;    ///< what "auto" may choose
  std::vector<std::string> across_nodes;  ///< ... of these between nodes; empty: all
  std::vector<Protocol> protocols;
  bool tuned = false;  ///< picks by its own estimate where that is known (tuner.h), else the fastest
  int version = 0;     ///< library_version()
  bool packs_rings =
      false;  ///< searches several rings over the links of a node (NCCL); else one, in rank order
  PerHop wire{1, 1, 1, 1};  ///< fraction of a route's latency that a step waits for: writes are posted
  /// Bytes/s at which a rank puts down what it does not send (rings over fast links, in bulk): that of the
  /// cores of all channels; 0: no limit.
  double own_rate = 0;
  double tree_efficiency = 1;  ///< of a tree against a ring between nodes
  double chain_step = 0;       ///< seconds per hop of a tree inside one node; 0: it runs none there
  bool tree_as_ring = false;   ///< a tree gets no more of the network than a ring
  double window = 0;  ///< chunks of a tree's channel per latency of a step between nodes; 0: no limit
  double exchange_efficiency = 1;  ///< of all-to-all against a ring between fast links
  double exchange_peer = 0;        ///< seconds that grouped sends take for each further peer of a node
  double channel_rate = 0;         ///< bytes/s that the cores of a channel copy at most; 0: no limit
  double exchange_ll =
      0;  ///< bytes of the largest of grouped sends that run under "ll"; 0: all protocols run
  /// Reductions in the switch (NVLS): seconds that a round takes besides the wires for each member that
  /// reduces a share, ...
  double switch_step = 0;
  double switch_efficiency = 0;    ///< ... and fraction of the usable bandwidth; 0 = not offered
  double switch_channel_rate = 0;  ///< bytes/s of the buffer that one of their channels copies; 0: no limit
  int switch_channels = 16;        ///< channels that they use
  double message_base = 0;         ///< software latency of one message
  double staged_base = 0;          ///< once more per staging through host memory
  double launch = 0;               ///< seconds of a host thread per kernel that it launches
  /// [worst hop]: nine of ten collectives are measured within this factor (less 1), up to 1 MiB and above, on
  /// machines that the constants were not fitted to; 0: not known. Wider where no fit has seen the
  /// accelerators' generation.
  std::array<std::array<double, 2>, kHopClasses> spread{};
  /// Seconds by which every further thread block starts later where one process launches the kernels of all
  /// its devices together (NCCL's launch mode GROUP); 0: it launches them one by one.
  double block_start = 0;
  double turnaround = 0;  ///< seconds that starting and awaiting a loop takes per host thread

  /// What a benchmark reports for a collective of `seconds` in `blocks` thread blocks: no less than one
  /// thread's launches, plus the late start of its blocks, plus the loop's start and end shared among its
  /// iterations.
  double reported(double seconds, double blocks, const Harness& harness) const;
};

}  // namespace tandem::sim
