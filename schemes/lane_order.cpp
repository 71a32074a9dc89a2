// SPDX-License-Identifier: Apache-2.0
#include "schemes/lane_order.h"

#include <algorithm>
#include <vector>

namespace tandem::schemes {

bool one_after_another(const Role& role) {
  const std::vector<Op> ops(role.ops.begin(), role.ops.end());
  const auto waits = [&](std::size_t later, std::size_t earlier, uint16_t lag) {
    return ops[later].lane == ops[earlier].lane ||
           std::any_of(ops[later].deps.begin(), ops[later].deps.end(),
                       [&](const Dep& d) { return d.op == earlier && d.lag == lag; });
  };
  // Between two neighbours there may be ops that only some iterations have.
  for (std::size_t later = 0; later < ops.size(); ++later) {
    std::size_t earlier = later;
    uint16_t lag = 0;
    do {
      if (earlier == 0) earlier = ops.size(), ++lag;
      if (!waits(later, --earlier, lag)) return false;
    } while (!ops[earlier].always() && lag < 2);
  }
  return true;
}

}  // namespace tandem::schemes
