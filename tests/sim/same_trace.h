// SPDX-License-Identifier: Apache-2.0
#pragma once
// What two evaluators must agree on.
#include <gtest/gtest.h>

#include <string>

#include "sim/evaluate/trace.h"

namespace tandem::tests {

inline void expect_same(const Trace& a, const Trace& b, uint64_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed) + ", " + a.evaluator + " against " + b.evaluator);
  EXPECT_EQ(a.makespan, b.makespan);
  EXPECT_EQ(a.iteration_end, b.iteration_end);
  EXPECT_EQ(a.worker_iterations, b.worker_iterations);
  for (int lane = 0; lane < kLanes; ++lane) EXPECT_EQ(a.busy[lane], b.busy[lane]);
  for (int wait = 0; wait < kWaits; ++wait) EXPECT_EQ(a.exposed[wait], b.exposed[wait]) << wait;
  for (int move = 0; move < kMoves; ++move) EXPECT_EQ(a.moved[move], b.moved[move]) << move;
  EXPECT_EQ(a.awaited, b.awaited);
  EXPECT_EQ(a.link_bytes, b.link_bytes);
  EXPECT_EQ(a.events, b.events);
  EXPECT_EQ(a.spans, b.spans);
  EXPECT_EQ(a.fingerprint, b.fingerprint);
}

}  // namespace tandem::tests
