// SPDX-License-Identifier: Apache-2.0
// What each op of a role does to the layers it works on.
#include "exec/workers/pass_plan.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/cross/split_case.h"

namespace tandem::tests {
namespace {

struct PlanCase {
  const char* scheme;
  int64_t devices;
  Of of;
  const char* recompute = "off";
};

/// Whatever shares out a step's passes among ops: each micro-batch's gradients of each parameter are made
/// once, and its first and last reductions are the first and the last.
TEST(PassPlan, EveryMicroBatchMakesEachGradientOnce) {
  for (const PlanCase& c :
       {PlanCase{"allreduce:bucket=1KiB", 2, Of::images},
        PlanCase{"pipeline:microbatches=5,schedule=zero-bubble", 2, Of::images},
        PlanCase{"pipeline:microbatches=4,schedule=interleaved", 2, Of::text},
        PlanCase{"hybrid:tensor=2,sequence=on,pipeline=2,microbatches=3", 4, Of::rotary},
        PlanCase{"hybrid:context=2,pipeline=2,microbatches=3,schedule=zero-bubble", 4, Of::text},
        PlanCase{"hybrid:expert=2,pipeline=2,microbatches=3", 4, Of::experts},
        PlanCase{"pipeline:microbatches=4", 2, Of::text, "blocks"}}) {
    SCOPED_TRACE(c.scheme);
    const ResolvedScheme scheme = resolve_scheme(c.scheme, Place{});
    SplitCase s{c.scheme, c.devices, 1, c.of};
    s.recompute = c.recompute;
    const Execution e = split_execution(s, scheme);
    const Program program = make_program(e);
    const Stages stages(e, program);
    for (uint32_t w = 0; w < stages.devices(); ++w) {
      const PassPlan plan(program, stages, w);
      const auto& ops = program.roles[stages.place(w).role].ops;
      std::map<int32_t, std::vector<int>> made;  // [micro-batch][element of the flat vector]
      for (uint32_t i = 0; i < ops.size(); ++i) {
        if (ops[i].kind != OpKind::compute || ops[i].payload != Payload::none) continue;
        auto& count = made[ops[i].micro];
        count.resize(static_cast<std::size_t>(stages.lowered(w).parameters()));
        for (const auto& [begin, end] : plan.work(i).ranges) {
          for (int64_t k = begin; k < end; ++k) ++count[static_cast<std::size_t>(k)];
        }
      }
      EXPECT_EQ(static_cast<int32_t>(made.size()), stages.micros());
      for (const auto& [micro, count] : made) {
        EXPECT_TRUE(std::all_of(count.begin(), count.end(), [](int n) { return n == 1; }))
            << "worker " << w << ", micro-batch " << micro;
      }
    }
  }
}

}  // namespace
}  // namespace tandem::tests
