// SPDX-License-Identifier: Apache-2.0
#pragma once
// How NCCL picks an algorithm and a protocol where an NVLink switch joins the devices: by an estimate of its
// own, not by what turns out fastest. Its formulas (NVIDIA/nccl, src/graph/tuning.cc, search.cc) over its
// constants (nccl_tuning.h).
#include <optional>
#include <string>
#include <string_view>

#include "sim/cost/link_pattern.h"
#include "sim/cost/nccl_tuning.h"

namespace tandem::sim {

/// The estimate for one group inside one node. What the system file says of bandwidths does not enter, since
/// NCCL counts cables: a faster link never changes the choice.
/// Immutable once made: any thread may read it.
class Tuner {
 public:
  /// None where NCCL's figures are not known here: several nodes, no switch, cables narrower than
  /// any channel, other devices than the generations of nccl_tuning(). `version`: major * 100 + minor.
  static std::optional<Tuner> of(const System& system, const Group& group, int version);

  /// Seconds that NCCL expects of its rings, for all but all-to-all, which it has no choice for; infinite for
  /// a protocol that it does not have.
  double ring(CollKind kind, std::string_view protocol, double bytes) const;
  /// The same of reducing in the switch: infinite but for all-reduces of one protocol on devices that can.
  double in_switch(CollKind kind, std::string_view protocol, double bytes) const;

 private:
  double steps(CollKind kind) const;  ///< of a ring

  double ranks_ = 0;
  std::string architecture_;  ///< of the devices
  int version_ = 0;
  double rate_ = 0;         ///< bytes/s of all ring channels together
  double channels_ = 0;     ///< of the rings
  double heads_ = 0;        ///< members that head a channel of the switch
  double switch_rate_ = 0;  ///< bytes/s that one channel that reduces in the switch achieves; 0: none does
};

/// Bytes of a buffer that NCCL reduces in the switch at once: channels x members x chunk, with a chunk that
/// it cuts down for small buffers; here it shrinks in between too, so that no size takes less than a smaller
/// one.
double switch_round(double bytes, std::size_t members, int channels);

/// Bytes of a buffer that NCCL moves through trees at once: channels x chunk. NCCL halves the chunk while
/// there are few of them for the tree's depth; here it shrinks in between too, so that no size takes less
/// than a smaller one.
double tree_round(double bytes, double depth, double channels);

}  // namespace tandem::sim
