// SPDX-License-Identifier: Apache-2.0
#include "schemes/program/lane_order.h"

#include <algorithm>
#include <vector>

namespace tandem::schemes {

namespace {

/// `answer` receives what comes back for what `asks` sends.
bool answers(const Program& program, const Op& answer, const Op& asks) {
  if (answer.kind != OpKind::recv || asks.kind != OpKind::send || answer.key != asks.key) return false;
  const Channel &back = program.channels[answer.what], &there = program.channels[asks.what];
  return back.address == Address::reply && back.from_role == there.to_role;
}

}  // namespace

bool one_after_another(const Program& program, const Role& role) {
  const std::vector<Op> ops(role.ops.begin(), role.ops.end());
  const auto waits = [&](std::size_t later, std::size_t earlier, uint16_t lag) {
    return ops[later].lane == ops[earlier].lane || (lag == 0 && answers(program, ops[later], ops[earlier])) ||
           std::any_of(ops[later].deps.begin(), ops[later].deps.end(),
                       [&](const Dep& d) { return d.op == earlier && d.lag == lag; });
  };
  const auto together = [&](std::size_t a, std::size_t b) {  // there in the same iterations
    return ops[a].every == ops[b].every && ops[a].from == ops[b].from && ops[a].until == ops[b].until;
  };
  // Who comes before an op is another one in iterations that lack those between.
  for (std::size_t later = 0; later < ops.size(); ++later) {
    std::vector<std::size_t> between;
    std::size_t earlier = later;
    uint16_t lag = 0;
    do {
      if (earlier == 0) {
        earlier = ops.size();
        ++lag;
        between.clear();
      }
      --earlier;
      const bool hidden =
          std::any_of(between.begin(), between.end(), [&](std::size_t op) { return together(op, earlier); });
      if (!hidden && !waits(later, earlier, lag)) return false;
      between.push_back(earlier);
    } while (!ops[earlier].always() && !(lag == 0 && together(earlier, later)) && lag < 2);
  }
  return true;
}

}  // namespace tandem::schemes
