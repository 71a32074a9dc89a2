// SPDX-License-Identifier: Apache-2.0
#pragma once
// How NCCL picks an algorithm and a protocol where an NVLink switch joins the devices: by an estimate of its
// own, whose constants are compiled into it, not by what turns out fastest. Source: NVIDIA/nccl,
// src/graph/tuning.cc (estimate), search.cc (channels), topo.h (rates per cable), of 2.18 to 2.28.9.
#include <optional>
#include <string_view>

#include "sim/cost/link_pattern.h"

namespace tandem::sim {

/// The estimate for one group inside one node. What the system file says of bandwidths does not enter, since
/// NCCL counts cables: a faster link never changes the choice.
class Tuner {
 public:
  /// None where NCCL's figures are not known here: several nodes, no switch, other devices than its four
  /// generations. `version`: major * 100 + minor.
  static std::optional<Tuner> of(const System& system, const Group& group, int version);

  /// Seconds that NCCL expects of its rings, for all but all-to-all, which it has no choice for; infinite for
  /// a protocol that it does not have.
  double ring(CollKind kind, std::string_view protocol, double bytes) const;
  /// The same of reducing in the switch: infinite but for all-reduces of the last protocol on devices that
  /// can.
  double in_switch(CollKind kind, std::string_view protocol, double bytes) const;

 private:
  double steps(CollKind kind) const;  ///< of a ring

  double ranks_ = 0;
  std::size_t generation_ = 0;  ///< index into the tables
  int version_ = 0;
  double rate_ = 0;         ///< bytes/s of all ring channels together
  double channels_ = 0;     ///< of the rings
  double heads_ = 0;        ///< members that head a channel of the switch
  double switch_rate_ = 0;  ///< bytes/s of one channel that reduces in the switch
};

/// Bytes of a buffer that NCCL reduces in the switch at once: channels x members x chunk, with a chunk that
/// it cuts down for small buffers (src/enqueue.cc).
double switch_round(double bytes, std::size_t members, int channels);

}  // namespace tandem::sim
