// SPDX-License-Identifier: Apache-2.0
#include "sim/evaluate/inbox.h"

#include <algorithm>
#include <utility>

namespace tandem::sim {

void Inbox::grow() {
  const std::size_t boxes = data_.size() / stride();
  Inbox more(static_cast<uint32_t>(boxes), 1, sources_);
  more.depth_ = 2 * depth_;
  more.data_.assign(boxes * more.stride(), 0);
  const uint32_t each = 1 + sources_;
  for (std::size_t i = 0; i < boxes; ++i) {
    const uint32_t* const from = &data_[i * stride()];
    uint32_t* const to = &more.data_[i * more.stride()];
    std::copy_n(from, each, to);
    for (uint32_t n = from[0] + 1; n <= from[0] + depth_; ++n)
      std::copy_n(slot(from, n), each, more.slot(to, n));
  }
  data_ = std::move(more.data_);
  depth_ = more.depth_;
}

}  // namespace tandem::sim
