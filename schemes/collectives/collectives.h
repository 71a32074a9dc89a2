// SPDX-License-Identifier: Apache-2.0
#pragma once
// Collective algorithms as step generators: the one description that gives cost, wire bytes and an
// executable schedule. A new algorithm is one file in schemes/collectives and one word in the list.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/registry.h"
#include "schemes/program/program.h"

namespace tandem::schemes {

/// One message of a step: elements [offset, offset + count) of the buffer, in units of 1/`chunks` of it, from
/// the sender's buffer to the same place in the receiver's. All-to-all alone is told otherwise: block
/// `offset` of the sender lands in block `from` of the receiver's result.
struct Move {
  uint32_t from = 0, to = 0;  ///< ranks in the group
  uint32_t offset = 0, count = 0;
  bool reduce = false;  ///< receiver adds instead of overwriting
};

/// All messages that may travel together; a step starts at a rank when its previous step's messages arrived.
/// What is sent is what the buffer held before the step.
struct Step {
  std::vector<Move> moves;
  uint32_t repeat = 1;  ///< steps with these senders, receivers and counts, folded into one (compact only)
};

/// Buffers at the start and the end, in blocks of chunks / ranks: reduce-scatter leaves the sum of block r on
/// rank r; all-gather starts with block r on rank r; broadcast and reduce have root 0 (others rename ranks).
struct Schedule {
  uint32_t ranks = 1;
  uint32_t chunks = 1;      ///< grain of offset and count
  std::vector<Step> steps;  ///< in order
  uint32_t pipeline = 1;    ///< >1: the steps stream in that many pieces (trees): cost = depth + pieces
};

/// How ranks sit: `local` consecutive ranks share a node (1 = flat).
struct GroupShape {
  uint32_t ranks = 1;
  uint32_t local = 1;
  bool compact =
      false;  ///< fold equal-load steps: O(ranks) moves for rings; gives the cost, cannot be executed
};

struct CollectiveAlgorithm {
  std::string_view name, summary;
  bool (*supports)(CollKind kind, const GroupShape& group);
  /// Requires supports(kind, group). One rank gives no steps.
  Schedule (*schedule)(CollKind kind, const GroupShape& group);
};

/// Payload a rank sends in all steps, the largest over the ranks, as a share of the buffer.
double sent_share(const Schedule& schedule);

bool overlap(const Move& a, const Move& b);  ///< in the chunks that they move
/// All that the last step does is to hand around the sums made in the step before, each to places that only
/// its maker has read meanwhile. Threads in one memory then let the maker put it there at once, from its
/// cache.
bool last_hands_out(const Schedule& schedule);
/// What ranks in one memory read and write in a step, the busiest one's, as a share of the buffer: each
/// source once, and where it goes twice, since a cache fetches a line before it is written, for a copy as for
/// a sum. `handed_out`: by their makers, from the cache into lines that they have just read.
double memory_passes(const Schedule& schedule, const Step& step, bool handed_out = false);
/// Of all steps, as threads run them (exec/comm/collective.h).
double memory_passes(const Schedule& schedule);

/// Generated from the list in schemes/CMakeLists.txt.
const Registry<CollectiveAlgorithm>& collectives_registry();

/// What the executor's own threads run: as named; for "auto" "direct" in one memory and "ring" between nodes
/// ("hierarchical" where several ranks share each), or the first other that can. Throws InputError when the
/// algorithm does not do that kind for that group.
const CollectiveAlgorithm& executed_algorithm(CollKind kind, const std::string& algorithm,
                                              const GroupShape& group, bool between_nodes);

}  // namespace tandem::schemes
