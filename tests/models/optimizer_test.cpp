// SPDX-License-Identifier: Apache-2.0
#include "models/optimizer.h"

#include "tests/models/helpers.h"

namespace tandem::tests {
namespace {

TEST(Optimizer, StateIsWhatEachRuleKeeps) {
  EXPECT_EQ(optimizer("sgd").state, 0);
  EXPECT_EQ(optimizer("momentum").state, 1);
  EXPECT_EQ(optimizer("rmsprop").state, 1);
  EXPECT_EQ(optimizer("adam").state, 2);
  EXPECT_EQ(optimizer("adamw").state, 2);
  EXPECT_EQ(optimizer("lamb").state, 2);
  EXPECT_FALSE(optimizer("lamb").executed());
}

TEST(Optimizer, UpdateReadsGradientParameterAndStateAndWritesBack) {
  for (const Optimizer& o : optimizers()) {
    if (!o.updates()) continue;
    const Kernel k = update_kernel(o, 1000);
    EXPECT_EQ(k.kind, KernelKind::optimizer);
    EXPECT_EQ(k.pass, Pass::update);
    EXPECT_EQ(k.flops.n, 1000 * o.flops);
    // LAMB besides writes and reads its step, and reads gradients, parameters and steps for their norms.
    const int64_t step = o.by_norms ? 4000 : 0;
    EXPECT_EQ(k.read.n, 8000 + 1000 * o.state * o.state_bytes + 5 * step) << o.name;
    EXPECT_EQ(k.written.n, 4000 + 1000 * o.state * o.state_bytes + step) << o.name;
    EXPECT_FALSE(o.summary.empty());
  }
}

TEST(Optimizer, NoneKeepsNothingAndAloneUpdatesNothing) {
  EXPECT_EQ(optimizer("none").state, 0);
  for (const Optimizer& o : optimizers()) EXPECT_EQ(o.updates(), o.name != "none");
}

TEST(Optimizer, UnknownNameGetsTheNearest) {
  EXPECT_THAT(error_of([] { optimizer("adm"); }),
              testing::AllOf(testing::HasSubstr("no optimizer \"adm\""), testing::HasSubstr("adam")));
}

}  // namespace
}  // namespace tandem::tests
