// SPDX-License-Identifier: Apache-2.0
#include "sim/evaluate/trace.h"

namespace tandem::sim {

std::string move_name(int move) {
  constexpr std::string_view beyond[] = {"push", "pull", "peer message", "copy", "message between stages"};
  if (move >= kMoveData) return "data " + std::string(name(static_cast<CollKind>(move - kMoveData)));
  if (move == kMoveTensor + static_cast<int>(CollKind::all_to_all)) return "expert all_to_all";
  if (move == kMoveTensor + static_cast<int>(CollKind::shift)) return "context shift";
  if (move >= kMoveTensor) return "tensor " + std::string(name(static_cast<CollKind>(move - kMoveTensor)));
  return std::string(move < kCollKinds ? name(static_cast<CollKind>(move)) : beyond[move - kCollKinds]);
}

}  // namespace tandem::sim
