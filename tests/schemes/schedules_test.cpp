// SPDX-License-Identifier: Apache-2.0
// Pipeline schedules on integers, for all small pipelines, against the formulas of their papers.
#include "schemes/schedules/pipeline_schedule.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace tandem::tests {
namespace {

using schemes::PipelineRun;
using schemes::PipelineSchedule;
using schemes::PipelineShape;
using schemes::run_pipeline;
using schemes::schedules_registry;
using schemes::shape_for;
using schemes::Slot;
using schemes::SlotTimes;
using schemes::TimedSlot;
using What = Slot::What;

const PipelineSchedule& schedule(std::string_view name) { return schedules_registry().at(name); }

bool serves(const PipelineSchedule& s, const PipelineShape& shape) {
  return s.refusal == nullptr ? shape.chunks == 1 : s.refusal(shape).empty();
}

/// Calls `look` with every schedule and every small shape that it serves.
template <typename Look>
void for_all(const Look& look) {
  for (const PipelineSchedule& s : schedules_registry().all()) {
    for (int32_t p = 1; p <= 8; ++p) {
      for (int32_t m = 1; m <= 16; ++m) {
        for (int32_t v = 1; v <= 4; ++v) {
          const PipelineShape shape{p, m, v, s.v};
          if (!serves(s, shape)) continue;
          SCOPED_TRACE(testing::Message()
                       << s.name << ", " << p << " stages, " << m << " micro-batches, " << v << " chunks");
          look(s, shape);
        }
      }
    }
  }
}

TEST(Schedules, ServeEveryMicroBatchOfEveryChunkOnce) {
  for_all([](const PipelineSchedule& s, const PipelineShape& shape) {
    for (int32_t stage = 0; stage < shape.stages; ++stage) {
      std::map<std::pair<int32_t, int32_t>, std::vector<What>> seen;
      for (const Slot& slot : s.slots(stage, shape)) {
        ASSERT_TRUE(slot.micro_batch >= 0 && slot.micro_batch < shape.micro_batches);
        ASSERT_TRUE(slot.chunk >= 0 && slot.chunk < shape.chunks);
        seen[{slot.micro_batch, slot.chunk}].push_back(slot.what);
      }
      EXPECT_EQ(seen.size(), static_cast<std::size_t>(shape.micro_batches * shape.chunks));
      for (const auto& [which, passes] : seen) {
        EXPECT_THAT(passes, testing::AnyOf(testing::ElementsAre(What::forward, What::backward),
                                           testing::ElementsAre(What::forward, What::data, What::weights)));
      }
    }
  });
}

TEST(Schedules, NoPassBeginsBeforeWhatItReadsIsThere) {
  for_all([](const PipelineSchedule& s, const PipelineShape& shape) {
    const PipelineRun run = run_pipeline(s, shape, {2, 3, 1});
    std::map<std::tuple<bool, int32_t, int32_t>, int64_t> end;  // (backward, part of the model, micro-batch)
    for (int32_t stage = 0; stage < shape.stages; ++stage) {
      int64_t free = 0;
      for (const TimedSlot& t : run.stages[static_cast<std::size_t>(stage)]) {
        EXPECT_GE(t.begin, free) << "one pass at a time";
        free = t.end;
        if (t.slot.what == What::weights) continue;
        end[{t.slot.what != What::forward, shape.part(stage, t.slot.chunk), t.slot.micro_batch}] = t.end;
      }
    }
    const int32_t parts = shape.stages * shape.chunks;
    for (int32_t stage = 0; stage < shape.stages; ++stage) {
      for (const TimedSlot& t : run.stages[static_cast<std::size_t>(stage)]) {
        const int32_t part = shape.part(stage, t.slot.chunk), m = t.slot.micro_batch;
        if (t.slot.what == What::forward) {
          EXPECT_GE(t.begin, (part > 0 ? end[{false, part - 1, m}] : 0));
        } else if (t.slot.what == What::weights) {
          EXPECT_GE(t.begin, (end[{true, part, m}]));
        } else {
          EXPECT_GE(t.begin, (part + 1 < parts ? end[{true, part + 1, m}] : end[{false, part, m}]));
        }
      }
    }
  });
}

/// (p-1)/(m+p-1): Huang et al. 2019, section 2.3; with v chunks (p-1)/(vm+p-1): Narayanan et al. 2021,
/// section 2.2.
TEST(Schedules, BubblesAreThoseOfThePapers) {
  for_all([](const PipelineSchedule& s, const PipelineShape& shape) {
    if (s.name == "zero-bubble" || s.v || shape.micro_batches % shape.stages != 0) return;
    const double p = shape.stages, m = shape.micro_batches, v = shape.chunks;
    for (const SlotTimes& times : {SlotTimes{1, 1, 1}, SlotTimes{2, 3, 2}, SlotTimes{7, 1, 1}})
      EXPECT_NEAR(run_pipeline(s, shape, times).bubble, (p - 1) / (v * m + p - 1), 1e-12);
  });
}

/// Qi et al. 2023, table 2: the idle time of ZB-H1 is (p-1)(F + B - W), where it is (p-1)(F + B + W) for
/// 1F1B.
TEST(Schedules, ZeroBubbleIdlesAThirdAsLong) {
  for (int32_t p = 1; p <= 8; ++p) {
    for (int32_t m = p; m <= 16; ++m) {
      const PipelineRun run = run_pipeline(schedule("zero-bubble"), {p, m, 1}, {1, 1, 1});
      EXPECT_EQ(run.length, 3 * m + (p - 1)) << p << " stages, " << m;
      EXPECT_EQ(run_pipeline(schedule("1f1b"), {p, m, 1}, {1, 1, 1}).length, 3 * m + 3 * (p - 1));
    }
  }
}

/// [stage]: chunks that it holds at most.
std::vector<int32_t> held(std::string_view name, int32_t stages, int32_t micro_batches) {
  const PipelineSchedule& s = schedule(name);
  return run_pipeline(s, shape_for(s, stages, micro_batches), {1, 1, 1}).held;
}

/// Qi et al. 2024, section 4: where all passes are equally long a stage of ZB-V waits for the first work and
/// for nothing else. So does DualPipeV.
TEST(Schedules, VShapesIdleAtTheBeginningAlone) {
  for (const char* name : {"zbv", "dualpipev"}) {
    for (int32_t p = 1; p <= 8; ++p) {
      for (int32_t m = 2 * p; m <= 20; ++m) {
        const PipelineRun run = run_pipeline(schedule(name), shape_for(schedule(name), p, m), {1, 1, 1});
        EXPECT_EQ(run.length, 6 * m + p - 1) << name << ", " << p << " stages, " << m;
      }
    }
  }
}

/// As counted in the orders of torch 2.15.0: ScheduleZBVZeroBubble, ScheduleDualPipeV (in whose pairs the
/// backward pass lets go first) and ScheduleInterleaved1F1B, on 4 ranks.
TEST(Schedules, HoldWhatTorchsOrdersHold) {
  using testing::ElementsAre;
  EXPECT_THAT(held("zbv", 4, 8), ElementsAre(8, 8, 8, 8));
  EXPECT_THAT(held("zbv", 4, 3), ElementsAre(4, 5, 6, 6));
  EXPECT_THAT(held("dualpipev", 4, 8), ElementsAre(8, 8, 8, 9));
  EXPECT_THAT(held("interleaved", 4, 8), ElementsAre(11, 9, 7, 5));
  EXPECT_THAT(held("interleaved", 4, 6), ElementsAre(12, 11, 9, 7));
  EXPECT_THAT(held("interleaved", 4, 10), ElementsAre(12, 10, 8, 6));
}

std::string turns(std::string_view name, int32_t stage, int32_t stages, int32_t micro_batches) {
  const PipelineSchedule& s = schedule(name);
  std::string out;
  for (const Slot& slot : s.slots(stage, shape_for(s, stages, micro_batches)))
    out += fmt::format("{}{}{} ", "FBIW"[static_cast<int>(slot.what)], slot.micro_batch,
                       slot.chunk == 0 ? "" : "'");
  return out;
}

/// Two ranks, four micro-batches, as torch 2.15.0 lists them; ' is the second chunk.
TEST(Schedules, GoInTorchsOrders) {
  EXPECT_EQ(turns("zbv", 0, 2, 4),
            "F0 F1 F2 F0' I0' W0' F1' I1' W1' F3 I0 W0 F2' I2' W2' I1 W1 F3' I3' W3' I2 W2 I3 W3 ");
  EXPECT_EQ(turns("zbv", 1, 2, 4),
            "F0 F0' F1 F1' I0' W0' F2 I0 W0 F2' I1' W1' F3 I1 W1 F3' I2' W2' I2 I3' I3 W2 W3' W3 ");
  EXPECT_EQ(turns("dualpipev", 0, 2, 4),
            "F0 F1 F2 F0' I0' W0' F1' B1' F3 B0 F2' B2' B1 F3' B3' I2 W2 I3 W3 ");
}

TEST(Schedules, HoldNoMoreThanTheySay) {
  for_all([](const PipelineSchedule& s, const PipelineShape& shape) {
    const PipelineRun run = run_pipeline(s, shape, {1, 1, 1});
    const int32_t p = shape.stages, m = shape.micro_batches, v = shape.chunks;
    for (int32_t stage = 0; stage < p; ++stage) {
      const int32_t held = run.held[static_cast<std::size_t>(stage)];
      const int32_t most = s.name == "gpipe"  ? m
                           : s.name == "1f1b" ? std::min(m, p - stage)
                           : s.name == "interleaved"
                               ? std::min(m * v, 2 * (p - stage - 1) + (v - 1) * (m / std::max(1, m / p)) + 1)
                           : s.v ? 2 * p + 2
                                 : std::min(m, p);  // as 1F1B's first stage
      EXPECT_LE(held, most);
      if (s.name != "zero-bubble" && !s.v) {
        EXPECT_EQ(held, most);
      }
    }
  });
}

TEST(Schedules, RefuseShapesThatTheyCannotServe) {
  const auto why = [](std::string_view name, const PipelineShape& shape) {
    try {
      run_pipeline(schedule(name), shape, {});
    } catch (const InputError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_THAT(why("interleaved", {4, 9, 2}), testing::HasSubstr("in 2 rounds, which do not divide them"));
  EXPECT_THAT(why("dualpipev", {4, 7, 2, true}), testing::HasSubstr("fewer than the 8 parts"));
  EXPECT_THAT(why("zbv", {4, 8, 3, true}), testing::HasSubstr("two chunks"));
  EXPECT_THAT(why("interleaved", {4, 8, 1}), testing::HasSubstr("1f1b"));
  EXPECT_THAT(why("gpipe", {4, 8, 2}), testing::HasSubstr("interleaved"));
  EXPECT_EQ(why("1f1b", {4, 1, 1}), "");
}

}  // namespace
}  // namespace tandem::tests
