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
}

TEST(Optimizer, StateOfATensorIsWhatItsFormTakes) {
  EXPECT_EQ(optimizer("adamw").state_words(6000, 60), 12000);
  EXPECT_EQ(optimizer("lamb").state_words(6000, 0), 12000);
  EXPECT_EQ(optimizer("adafactor").state_words(6000, 60), 60 + 100);
  EXPECT_EQ(optimizer("adafactor").state_words(6000, 0), 6000);
  EXPECT_EQ(optimizer("adamw-8bit").state_words(4095, 0), 2 * 4095);
  EXPECT_EQ(optimizer("adamw-8bit").state_words(4097, 0), 2 * (1025 + 17));
  EXPECT_EQ(optimizer("adamw-8bit-paged").device_state(4097, 0), 0);
  EXPECT_EQ(optimizer("adamw-8bit").device_state(4097, 0, 2), 4 * (1025 + 17));
}

TEST(Optimizer, WorksOnWholeTensorsWhereElementsNeedEachOther) {
  for (const Optimizer& o : optimizers()) {
    const bool alone = o.name == "sgd" || o.name == "momentum" || o.name == "adam" || o.name == "adamw" ||
                       o.name == "rmsprop" || o.name == "none" || o.name == "adamw-paged";
    EXPECT_EQ(o.by_tensor(), !alone) << o.name;
  }
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
