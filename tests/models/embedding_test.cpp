// SPDX-License-Identifier: Apache-2.0
#include "tests/models/helpers.h"

namespace tandem::tests {
namespace {

using testing::HasSubstr;

TEST(Embedding, GathersRowsAndMakesADenseGradient) {
  const Lowered l =
      lower_one("embedding", {{128}}, R"({"vocabulary": 1000, "width": 64})", 2, Precision::fp16);
  EXPECT_EQ(l.output, (Shape{128, 64}));
  EXPECT_EQ(parameters(l), 64000);
  constexpr int64_t kRows = 2 * 256 * 64;
  EXPECT_EQ(l.forward[0].shape, (std::vector<int64_t>{256, 64, 1000}));
  EXPECT_EQ(l.forward[0].read.n, 4 * 256 + kRows);
  EXPECT_EQ(l.forward[0].written.n, kRows);
  EXPECT_EQ(l.backward_weights[0].written.n, kRows + 2 * 64000);
  EXPECT_TRUE(l.backward_data.empty());
  EXPECT_THAT(error_of([] {
                lower_one("embedding", {{128, 3}}, R"({"vocabulary": 10, "width": 4})");
              }),
              HasSubstr("takes tokens"));
}

TEST(PositionEmbedding, AddsAVectorPerPosition) {
  const Lowered l = lower_one("position-embedding", {{128, 64}}, R"({"length": 512})", 2);
  EXPECT_EQ(l.output, (Shape{128, 64}));
  EXPECT_EQ(parameters(l), 512 * 64);
  EXPECT_EQ(l.forward[0].read.n, 4 * 3 * 128 * 64);
  EXPECT_EQ(l.backward_weights[0].written.n, 4 * 128 * 64);
  EXPECT_THAT(error_of([] {
                lower_one("position-embedding", {{128, 64}}, R"({"length": 100})");
              }),
              HasSubstr("100 positions for a sequence of 128"));
}

TEST(ClsToken, StandsBeforeTheSequence) {
  const Lowered l = lower_one("cls-token", {{196, 768}}, "{}", 4);
  EXPECT_EQ(l.output, (Shape{197, 768}));
  EXPECT_EQ(parameters(l), 768);
  EXPECT_EQ(l.forward[0].written.n, 4 * 4 * 197 * 768);
  EXPECT_THAT(error_of([] { lower_one("cls-token", {{3, 4, 5}}); }), HasSubstr("takes {time, width}"));
}

}  // namespace
}  // namespace tandem::tests
