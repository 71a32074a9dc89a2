// SPDX-License-Identifier: Apache-2.0
#include "tests/models/helpers.h"

namespace tandem::tests {
namespace {

using testing::HasSubstr;

TEST(Softmax, KeepsItsOutput) {
  const Lowered l = lower_one("softmax", {{16, 1000}}, "{}", 2);
  EXPECT_EQ(l.output, (Shape{16, 1000}));
  EXPECT_EQ(l.forward[0].shape, (std::vector<int64_t>{32, 1000}));
  EXPECT_EQ(l.forward[0].flops.n, 5 * 32000);
  EXPECT_EQ(l.backward_data[0].read.n, 2 * 4 * 32000);
  EXPECT_TRUE(l.keeps_output);
}

TEST(CrossEntropy, IsAScalarOverClasses) {
  const Lowered l = lower_one("cross-entropy", {{1000}}, "{}", 32);
  EXPECT_TRUE(l.output.empty());
  EXPECT_EQ(l.forward[0].kind, KernelKind::softmax);
  EXPECT_EQ(l.forward[0].shape, (std::vector<int64_t>{32, 1000}));
  EXPECT_EQ(own_kept_bytes(l, 2), 4 * 1000);  // log-probabilities
  // Segmentation: classes are the channels.
  EXPECT_EQ(lower_one("cross-entropy", {{2, 388, 388}}).forward[0].shape,
            (std::vector<int64_t>{388 * 388, 2}));
  EXPECT_EQ(lower_one("cross-entropy", {{512, 50257}}).forward[0].shape, (std::vector<int64_t>{512, 50257}));
}

TEST(Mse, ReadsPredictionAndTarget) {
  const Lowered l = lower_one("mse", {{3, 8, 8}}, "{}", 2);
  EXPECT_TRUE(l.output.empty());
  EXPECT_EQ(l.forward[0].read.n, 2 * 4 * 2 * 192);
  EXPECT_TRUE(lower_one("mse", {{3}, {3}}).output.empty());
  EXPECT_THAT(error_of([] { lower_one("mse", {{3}, {4}}); }), HasSubstr("shapes 3 and 4 differ"));
  EXPECT_THAT(error_of([] { lower_one("mse", {{3}, {3}, {3}}); }), HasSubstr("one or two inputs"));
}

}  // namespace
}  // namespace tandem::tests
