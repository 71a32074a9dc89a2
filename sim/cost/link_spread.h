// SPDX-License-Identifier: Apache-2.0
#pragma once
// How sure the time of a transfer is: standard errors of its logarithm, which Transfer::spread has.
#include <span>

#include "topologies/system.h"

namespace tandem::sim {

/// Of any transfer over links, as their file and the library describe them. Set so that VALIDATION.md's rows
/// are covered about as often as stated, as the next one.
inline constexpr double kLinkSpread = 0.3;

/// What the system's network adds: where a figure of it is listed as `unverified`, and where machines of one
/// description differ ("communication.spread"). Else 0.
double network_spread(const System& system);

/// Whether neighbours among `members` reach each other through their host's memory alone.
bool through_host(const System& system, std::span<const VertexId> members);

/// Of a transfer among `members`: links, between nodes a recalled network, and hosts that differ
/// (System::staged_spread()) unless `measured` collectives correct them. Independent of each other.
double link_spread(const System& system, std::span<const VertexId> members, bool measured);

}  // namespace tandem::sim
