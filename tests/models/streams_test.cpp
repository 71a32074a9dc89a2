// SPDX-License-Identifier: Apache-2.0
#include "tests/models/helpers.h"

namespace tandem::tests {
namespace {

using testing::HasSubstr;

/// 4 streams of 16 features: 4 weights to read them, 4 to write and 16 to mix, of all 64 features.
TEST(Streams, AreReadAndWrittenByWeightsThatTheyMake) {
  const Lowered read = lower_one("stream-read", {{10, 64}}, R"({"streams": 4})");
  EXPECT_EQ(read.output, (Shape{10, 16}));
  EXPECT_EQ(parameters(read), 24 * 64 + 24 + 3);
  const Lowered last = lower_one("stream-read", {{10, 64}}, R"({"streams": 4, "mixes": false})");
  EXPECT_EQ(parameters(last), 4 * 64 + 4 + 1);
  const Lowered written = lower_one("stream-write", {{10, 16}, {10, 64}}, R"({"streams": 4})");
  EXPECT_EQ(written.output, (Shape{10, 64}));
  EXPECT_EQ(parameters(written), 0);
  EXPECT_THAT(error_of([] {
                lower_one("stream-write", {{10, 8}, {10, 64}}, R"({"streams": 4})");
              }),
              HasSubstr("10x8 is not one of 4 streams"));
}

}  // namespace
}  // namespace tandem::tests
