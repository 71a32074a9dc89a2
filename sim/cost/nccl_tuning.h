// SPDX-License-Identifier: Apache-2.0
#pragma once
// The constants that NCCL chooses algorithms and protocols by. Data: calibration/profiles/nccl_tuning.json,
// with NCCL's file and version next to each.
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace tandem::sim {

/// Rates in bytes/s, times in seconds, versions as major * 100 + minor.
struct NcclTuning {
  /// One architecture of devices.
  struct Generation {
    double cable = 0;              ///< what one NVLink cable counts for
    std::vector<double> channels;  ///< rates of a channel that the search tries, in this order
    double split = 0;  ///< channels of this rate and more are two of half of it, however many they are
    double switch_efficiency = 0;  ///< of reducing in the switch; 0: it cannot
  };
  struct Search {
    double most_channels = 0;  ///< that the search finds, before it splits them
    double least_rate = 0;     ///< slower channels are tried above this share of the rate found
    double split_least = 0;    ///< slower channels are never split ...
    double split_few = 0;      ///< ... but up to that many of this rate and more always
  };
  /// What a protocol leaves of the rings' rate, from a version on.
  struct Rate {
    int from = 0;
    double share = 1, share_reducing = 1;  ///< the latter of kinds that reduce to one rank or to all
    std::map<std::string, double> most;    ///< by architecture, of all channels together; empty: no limit
    std::map<std::string, double> most_per_channel;
  };
  struct Protocol {
    double base = 0, step = 0;
    std::vector<Rate> rates;              ///< ascending versions, at least one
    const Rate& rate(int version) const;  ///< the newest not newer; the first for what is older
  };
  struct Smaller {
    double rounds = 0, chunk = 0;
  };
  /// Reducing in the switch.
  struct Switch {
    std::string protocol;
    double base = 0;
    std::size_t most_heads = 0;    ///< members that head a channel
    double chunk = 0;              ///< bytes per channel and member that go at once
    std::vector<Smaller> smaller;  ///< chunk for buffers below that many rounds of the chunk so far
  };
  /// Trees with the protocol for long messages.
  struct Tree {
    double share = 1;     ///< of the links' rate inside a node
    double smallest = 1;  ///< bytes of a buffer that gets corrections[0] of that; twice as much: the next
    std::vector<double> corrections;  ///< at least one
    double chunk = 0;                 ///< over several nodes: bytes per channel that go at once
    /// Halved down to `chunk` while the buffer has less than `rounds` of them per hop of the tree's depth.
    std::vector<Smaller> smaller;
    double efficiency(double bytes) const;
  };

  /// Grouped sends, inside one node.
  struct Exchange {
    double channels = 1, channels_pcie = 1;  ///< per peer, over fast links and over others
    double chunk = 1;                        ///< bytes that a channel sends at once
    double part = 1, part_ll = 1;  ///< fewest bytes of a message that a channel gets, but for small ones
    int whole_from = 0, whole_before = 0;  ///< versions that hold the limit for LL against a message's share
                                           ///< of all channels rather than what a channel gets
  };

  std::map<std::string, Generation> generations;
  Search search;
  std::map<std::string, Protocol> ring;  ///< by protocol
  Switch in_switch;
  Tree tree;
  Exchange exchange;

  /// The ring channels that the search finds on NVLink cables that count for `whole` bytes/s together. None
  /// where no channel fits.
  struct Channels {
    double count = 0, rate = 0;  ///< rate: bytes/s of all together
  };
  Channels channels(const Generation& generation, double whole) const;
  /// Null where NCCL's figures for an architecture or a protocol are not known.
  const Generation* generation(std::string_view architecture) const;
  const Protocol* protocol(std::string_view name) const;
  /// Bytes/s that the cores of one channel copy at most: what NCCL's newest figures give LL128. 0: not known.
  double channel_rate(std::string_view architecture) const;
};

/// Throws InputError at the place of what is missing, unknown or out of its range: rates by architecture must
/// name each generation, versions must ascend, and every entry must name its source.
NcclTuning read_nccl_tuning(const Json& json);

/// The data file, read once. Thread safe.
const NcclTuning& nccl_tuning();

}  // namespace tandem::sim
