// SPDX-License-Identifier: Apache-2.0
// The timeline of models split over stages: a pass is one entry, and no stage is left out while it fits.
#include "schemes/report/stage_timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/schemes/fixtures.h"

namespace tandem::tests {
namespace {

Program timed(const std::string& text, const Cluster& cluster) { return compile(text, small_gpt(), cluster); }

/// Every op of every instance, a nanosecond each, one behind the other.
std::vector<Span> spans_of(const Program& p, uint32_t iterations, uint32_t instances = 1) {
  std::vector<Span> out;
  for (uint32_t r = 0; r < p.roles.size(); ++r) {
    for (uint32_t i = 0; i < instances; ++i) {
      int64_t at = 0;
      for (uint32_t k = 0; k < iterations; ++k) {
        for (uint32_t op = 0; op < p.roles[r].ops.size(); ++op, at += 1000)
          out.push_back({r, i, k, op, Time{at}, Time{at + 1000}, Time{at}, 0});
      }
    }
  }
  return out;
}

/// Entries of stage `role` on its compute lane, by label.
std::map<std::string, int> computed(const std::vector<TimelineEntry>& timeline, const std::string& role) {
  std::map<std::string, int> out;
  for (const TimelineEntry& e : timeline) {
    if (e.role == role && e.lane == "compute") ++out[e.label];
  }
  return out;
}

TEST(StageTimeline, APassIsOneEntry) {
  const Program p = timed("hybrid:pipeline=2,tensor=2,microbatches=4", {4, 1, 4});
  ASSERT_TRUE(shows_passes(p));
  const auto timeline = stage_timeline(p, spans_of(p, 1), 1000);
  for (const char* stage : {"stage 0", "stage 1"}) {
    const auto passes = computed(timeline, stage);
    EXPECT_EQ(passes.size(), 9U);
    for (const auto& [label, count] : passes) EXPECT_EQ(count, 1) << label;
    EXPECT_TRUE(passes.contains("forward of micro-batch 0"));
    EXPECT_TRUE(passes.contains("backward of micro-batch 3"));
    EXPECT_TRUE(passes.contains("updates"));
  }
  EXPECT_TRUE(std::any_of(timeline.begin(), timeline.end(), [](const TimelineEntry& e) {
    return e.lane == "comm" && e.label == "exchange in forward of micro-batch 2";
  }));
}

/// The last stage's update of a weight that the first one has too waits for that one's gradient.
TEST(StageTimeline, UpdatesThatWaitAreNotOneEntry) {
  const Program p = timed("hybrid:pipeline=2,microbatches=2", {2, 1, 2});
  std::vector<Span> spans = spans_of(p, 1);
  std::vector<Span*> updates;
  for (Span& s : spans) {
    const Op& op = p.roles[s.role].ops[s.op];
    if (s.role == 1 && op.kind == OpKind::compute && p.tasks[op.what].pass == Pass::update)
      updates.push_back(&s);
  }
  ASSERT_GT(updates.size(), 1U);
  updates.back()->start.ps += 1'000'000'000'000;
  updates.back()->end.ps += 1'000'000'000'000;
  EXPECT_EQ(computed(stage_timeline(p, spans, 1000), "stage 1").at("updates"), 2);
  EXPECT_EQ(computed(stage_timeline(p, spans, 1000), "stage 0").at("updates"), 1);
}

TEST(StageTimeline, NamesPartsAndHalvesOfBackward) {
  const Program parts = timed("pipeline:microbatches=4,schedule=interleaved,chunks=2", {2, 1, 2});
  EXPECT_TRUE(computed(stage_timeline(parts, spans_of(parts, 1), 1000), "stage 1")
                  .contains("forward of micro-batch 1, part 1"));
  const Program halves = timed("pipeline:microbatches=4,schedule=zero-bubble", {2, 1, 2});
  const auto passes = computed(stage_timeline(halves, spans_of(halves, 1), 1000), "stage 0");
  EXPECT_TRUE(passes.contains("backward-data of micro-batch 3"));
  EXPECT_TRUE(passes.contains("backward-weights of micro-batch 3"));
  EXPECT_FALSE(passes.contains("backward of micro-batch 3"));
}

TEST(StageTimeline, KeepsAllStagesWhileTheyFitAndThenEverySecond) {
  const Program p = timed("hybrid:pipeline=4,microbatches=8", {4, 1, 4});
  const std::vector<Span> spans = spans_of(p, 4);
  const auto roles = [&](std::size_t most) {
    std::set<std::string> out;
    const auto timeline = stage_timeline(p, spans, most);
    EXPECT_LE(timeline.size(), most);
    for (const TimelineEntry& e : timeline) out.insert(e.role);
    return out;
  };
  EXPECT_EQ(roles(2000).size(), 4U);
  EXPECT_EQ(roles(4 * 17).size(), 4U);  // 8 micro-batches each way and the updates
  EXPECT_EQ(roles(4 * 17 - 1), (std::set<std::string>{"stage 0", "stage 2"}));
}

TEST(StageTimeline, WholeModelsKeepTheirOps) {
  EXPECT_FALSE(shows_passes(timed("allreduce", {4, 1, 4})));
  EXPECT_FALSE(shows_passes(timed("hybrid:tensor=2", {4, 1, 4})));
}

}  // namespace
}  // namespace tandem::tests
