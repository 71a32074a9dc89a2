// SPDX-License-Identifier: Apache-2.0
#pragma once
// A pattern under one protocol: latency and seconds per byte.
#include <map>
#include <vector>

#include "schemes/setup/scheme.h"
#include "sim/bound/bound_program.h"
#include "sim/cost/link_pattern.h"
#include "sim/cost/link_profile.h"

namespace tandem::sim {

struct PatternPrice {
  bool possible = false;  ///< the protocol can run over all classes of hops that the pattern has
  double latency = 0;     ///< seconds
  double steps = 0;       ///< seconds of the steps, part of latency
  double seconds_per_byte = 0;
  double seconds(double bytes) const { return latency + bytes * seconds_per_byte; }
  std::map<uint32_t, double> uses;  ///< resource -> bytes per byte of payload, over what is achieved
};

/// `threads`: bytes on the threads that move the payload between nodes, per byte of it. `capacity`: usable
/// bytes/s of every resource. O(links used).
PatternPrice price(const Pattern& p, const std::map<uint32_t, double>& threads, const Protocol& protocol,
                   const Library& library, const Overheads& overheads, const std::vector<double>& capacity);

/// What rings over fast links hide of a buffer of `size` bytes that they send in bulk. A chunk goes in two
/// slices (NCCL, src/include/collectives.h, ALLREDUCE_CHUNKSTEPS over SLICESTEPS), the second of which is
/// under way while the first is handed on: of steps and transfer half of the shorter one.
void add_slices(PatternPrice& p, double size, const Pattern& pattern, const Protocol& protocol);

/// What reducing in the switch adds to a buffer of `size` bytes. It goes in rounds (switch_round) through
/// three stages at once (scatter, reduce, gather), so that a buffer takes two rounds more than it has.
void add_rounds(PatternPrice& p, double size, const Pattern& pattern, const Library& library);

/// What a tree of NCCL leaves of the links for a buffer of `size` bytes (sim/cost/nccl_tuning.h).
void add_tree_correction(PatternPrice& p, double size);

/// What the cores that copy leave of fast links for grouped sends of `size` bytes. Each channel moves its
/// parts of all messages at its own rate, and a message smaller than a part of each goes through few of them.
/// A receiver copies what has arrived whole: the last chunk of each channel takes its time twice.
void add_copies(PatternPrice& p, double size, const Pattern& pattern, const Protocol& protocol,
                const Library& library);

/// Where data goes one way: seconds of the steps after the first, over which members work on different
/// calls; else 0.
double overlap_of_calls(const Pattern& p, const Protocol& protocol, const Library& library);

/// What trees over nodes add for a buffer that they move in chunks. Where no switch reduces, the first chunk
/// of each channel comes whole to a node before it goes on (not under LL, which sends words). A transport
/// that has few chunks under way at once (Library::window) moves none in less than its share of the latency
/// of a step between nodes; where the switch reduces, half of that comes on top (as two p5 and two H100
/// servers show).
void add_chunks(PatternPrice& p, double size, const Pattern& pattern, const Protocol& protocol,
                const Library& library);

/// The worst class of hop that the pattern has a step on.
std::size_t worst_hop(const Pattern& p);

/// A Transfer's list of uses, in order of resources.
std::vector<Use> uses_of(const std::map<uint32_t, double>& weights);
Transfer transfer_of(const PatternPrice& p, double bytes);

}  // namespace tandem::sim
