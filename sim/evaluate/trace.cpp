// SPDX-License-Identifier: Apache-2.0
#include "sim/evaluate/trace.h"

namespace tandem::sim {

std::string_view move_name(int move) {
  constexpr std::string_view beyond[] = {"push", "pull", "peer message", "copy"};
  return move < kCollKinds ? name(static_cast<CollKind>(move)) : beyond[move - kCollKinds];
}

}  // namespace tandem::sim
