// SPDX-License-Identifier: Apache-2.0
#include "tests/models/helpers.h"

namespace tandem::tests {
namespace {

using testing::HasSubstr;

/// 1,024 positions of 64 features become 256 keys of 32, of two products each for this window and the next.
TEST(Compressed, PositionsBecomeKeys) {
  const Lowered l = lower_one("compressor", {{1024, 64}}, R"({"ratio": 4, "features": 32, "overlap": true})");
  EXPECT_EQ(l.output, (Shape{256, 32}));
  EXPECT_EQ(parameters(l), 2 * 64 * 64 + 4 * 64 + 32);
  EXPECT_EQ(l.forward[0].flops.n + l.forward[1].flops.n, 2 * 2LL * 1024 * 64 * 64);
  const Lowered one = lower_one("compressor", {{64, 64}}, R"({"ratio": 128, "features": 32})");
  EXPECT_EQ(one.output, (Shape{1, 32})) << "a sequence shorter than a window is one";
}

/// A query sees its window and, of the compressed keys, the best ones or half of them on the mean.
TEST(Compressed, AQuerySeesItsWindowAndCompressedKeys) {
  const auto scores = [](const std::vector<Shape>& shapes, const std::string& more) {
    const Lowered l = lower_one("compressed-attention", shapes,
                                R"({"heads": 2, "head_dim": 32, "window": 128)" + more + "}");
    for (const Kernel& k : l.forward) {
      if (k.kind == KernelKind::attention) return k.flops.n;
    }
    return int64_t{0};
  };
  const auto seen = [](int64_t keys) { return 4 * 2 * 1024 * keys * 32; };
  EXPECT_EQ(scores({{1024, 64}, {1024, 32}}, ""), seen(128));
  EXPECT_EQ(scores({{1024, 64}, {1024, 32}, {256, 32}}, ""), seen(128 + 128));
  EXPECT_EQ(scores({{1024, 64}, {1024, 32}, {256, 32}}, R"(, "top": 64)"), seen(128 + 64));
  EXPECT_THAT(error_of([] {
                lower_one("compressed-attention", {{1024, 64}, {1024, 16}},
                          R"({"heads": 2, "head_dim": 32, "window": 128})");
              }),
              HasSubstr("input 2 is 1024x16, not {time, 32}"));
}

TEST(Compressed, FeaturesOfAGroupMeetOnlyEachOther) {
  const Lowered l = lower_one("grouped-linear", {{10, 64}}, R"({"groups": 4, "features": 32})");
  EXPECT_EQ(l.output, (Shape{10, 32}));
  EXPECT_EQ(parameters(l), 64 * 32 / 4);
  EXPECT_EQ(flops(l.forward), 2 * 10 * 64 * 32 / 4);
  EXPECT_THAT(error_of([] {
                lower_one("grouped-linear", {{10, 64}}, R"({"groups": 3, "features": 32})");
              }),
              HasSubstr("3 groups do not divide"));
}

}  // namespace
}  // namespace tandem::tests
