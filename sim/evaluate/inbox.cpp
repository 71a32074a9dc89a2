// SPDX-License-Identifier: Apache-2.0
#include "sim/evaluate/inbox.h"

namespace tandem::sim {

void Inbox::grow() {
  const uint32_t depth = depth_ * 2;
  std::vector<uint32_t> got(taken_.size() * depth, 0), stamp(taken_.size() * depth * sources_, 0);
  for (std::size_t box = 0; box < taken_.size(); ++box) {
    for (uint32_t n = taken_[box] + 1; n <= taken_[box] + depth_; ++n) {
      const std::size_t from = box * depth_ + n % depth_, to = box * depth + n % depth;
      got[to] = got_[from];
      for (uint32_t s = 0; s < sources_; ++s) stamp[to * sources_ + s] = stamp_[from * sources_ + s];
    }
  }
  got_ = std::move(got);
  stamp_ = std::move(stamp);
  depth_ = depth;
}

}  // namespace tandem::sim
