// SPDX-License-Identifier: Apache-2.0
// The rounds of a coordinator (Horovod's RunLoopOnce, horovod/common/operations.cc). One begins a cycle after
// the last began, or when that has ended. In it all workers that sum the same gradients tell each other by a
// sum of bits which they have, like Horovod's response cache. What all have is summed: neighbours in the flat
// vector together, without a separate buffer, up to the limit of the bucket. All see the same bits, so all do
// the same.
#include <algorithm>

#include "exec/run/lane_driver.h"

namespace tandem::exec {

void ThreadDriver::walk_in_rounds(LaneState& lane) {
  constexpr int64_t kLook = 5'000'000;  // ns
  uint32_t passed = 0;
  int64_t began = now_ns();  // the last round
  votes_.resize(lane.ops.size());
  for (int32_t i = 0; begins(lane, i); ++i) {
    for (std::size_t next = 0; next < lane.ops.size();) {
      const LaneOp& op = lane.ops[next];
      if (op.runs(i) && op.gradients.elements > 0) {
        sleep_until(began + run_.coordinator().cycle(), run_.abort(), kLook);
        began = now_ns();
        const std::size_t end = next + agreed(lane, next, i);
        while (next < end) {
          const std::size_t summed = sum_agreed(lane, next, end - next, i);
          next += summed;
          lane.passed.set(passed += static_cast<uint32_t>(summed));
        }
        continue;
      }
      if (op.runs(i)) step(lane, op, i);
      ++next;
      lane.passed.set(++passed);
    }
  }
  leave(lane, passed);
}

/// Whether all dependencies of the op have ended.
bool ThreadDriver::has_ended(const LaneOp& op, int32_t iteration) const {
  return std::all_of(op.deps.begin(), op.deps.end(), [&](const LaneDependency& d) {
    const std::optional<int32_t> of = d.of(iteration);
    return !of || static_cast<int32_t>(lanes_[d.lane].passed.value() - d.passed_by(*of)) >= 0;
  });
}

/// The number of ops from `next` on that all workers can do now, one after another.
std::size_t ThreadDriver::agreed(const LaneState& lane, std::size_t next, int32_t iteration) {
  std::fill(votes_.begin(), votes_.end(), 0.0F);
  std::size_t end = next;
  for (; end < lane.ops.size(); ++end) {
    const LaneOp& op = lane.ops[end];
    if (op.gradients.elements == 0 || !op.runs(iteration) || !has_ended(op, iteration)) break;
    votes_[end] = 1;
  }
  const auto at = votes_.begin() + static_cast<std::ptrdiff_t>(next);
  run_.coordinator().agree(instance_, &*at, static_cast<int64_t>(votes_.end() - at));
  const auto all = static_cast<float>(run_.coordinator().members(instance_));
  return static_cast<std::size_t>(std::find_if(at, votes_.end(), [&](float v) { return v < all; }) - at);
}

/// Sums the ops among `count` from `next` on that go together; returns how many.
std::size_t ThreadDriver::sum_agreed(LaneState& lane, std::size_t next, std::size_t count,
                                     int32_t iteration) {
  Slice range = lane.ops[next].gradients;
  std::size_t together = 1;
  for (; together < count; ++together) {
    const Slice& more = lane.ops[next + together].gradients;
    if (more.first != range.first + range.elements ||
        range.elements + more.elements > run_.coordinator().most_fused())
      break;
    range.elements += more.elements;
  }
  run_.abort().check();
  const int64_t ready = now_ns();
  const int64_t began = lane.sum(lane.ops[next], range, iteration);
  const int64_t end = now_ns();
  const int64_t start = std::max(ready, began);
  for (std::size_t k = 0; k < together; ++k)  // the time is the last one's
    lane.executed.push_back({static_cast<uint32_t>(iteration), lane.ops[next + k].op, start,
                             k + 1 < together ? start : end, ready});
  ++lane.sums;
  return together;
}

}  // namespace tandem::exec
