// SPDX-License-Identifier: Apache-2.0
#include "tests/models/helpers.h"

namespace tandem::tests {
namespace {

using testing::HasSubstr;

struct Case {
  std::string name, type, attributes;
  Shape in, out;
  int64_t window;
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};
class Pool : public testing::TestWithParam<Case> {};

TEST_P(Pool, ShapeFlopsAndBytes) {
  const Case& c = GetParam();
  const Lowered l = lower_one(c.type, {c.in}, c.attributes, 2);
  EXPECT_EQ(l.output, c.out);
  const Kernel& f = l.forward.at(0);
  EXPECT_EQ(f.kind, KernelKind::pool);
  const int64_t planes = f.shape[0];
  EXPECT_EQ(planes * f.shape[1], 2 * elements(c.in));
  EXPECT_EQ(planes * f.shape[2], 2 * elements(c.out));
  EXPECT_EQ(f.shape[3], c.window);
  EXPECT_EQ(f.flops.n, 2 * elements(c.out) * c.window);
  EXPECT_EQ(f.read.n, 8 * elements(c.in));
  EXPECT_EQ(f.written.n, 8 * elements(c.out));
  const bool maximum = c.type == "max-pool";
  EXPECT_EQ(l.backward_data.at(0).read.n,
            8 * (elements(c.out) * (maximum ? 2 : 1) + (maximum ? elements(c.in) : 0)));
  EXPECT_EQ(l.backward_data.at(0).written.n, 8 * elements(c.in));
  EXPECT_EQ(l.keeps_input, maximum);
}
INSTANTIATE_TEST_SUITE_P(
    All, Pool,
    testing::Values(
        Case{"halving", "max-pool", R"({"kernel": 2})", {64, 224, 224}, {64, 112, 112}, 4},
        Case{
            "resnet", "max-pool", R"({"kernel": 3, "stride": 2, "pad": 1})", {64, 112, 112}, {64, 56, 56}, 9},
        Case{"floor", "max-pool", R"({"kernel": 3, "stride": 2})", {64, 112, 112}, {64, 55, 55}, 9},
        Case{"ceil",
             "max-pool",
             R"({"kernel": 3, "stride": 2, "ceil": true})",
             {64, 112, 112},
             {64, 56, 56},
             9},
        // The window that would begin in the padding behind the input does not exist.
        Case{"ceil_end",
             "max-pool",
             R"({"kernel": 2, "stride": 2, "pad": 1, "ceil": true})",
             {4, 3, 3},
             {4, 2, 2},
             4},
        Case{"average", "avg-pool", R"({"kernel": [2, 4]})", {8, 8, 8}, {8, 4, 2}, 8},
        Case{"same", "avg-pool", R"({"kernel": 3, "stride": 1, "pad": "same"})", {8, 7, 7}, {8, 7, 7}, 9},
        Case{"volume", "max-pool", R"({"kernel": [1, 2, 2]})", {8, 4, 8, 8}, {8, 4, 4, 4}, 4},
        Case{"global", "global-pool", "{}", {2048, 7, 7}, {2048}, 49},
        Case{"adaptive", "adaptive-pool", R"({"size": 6})", {256, 13, 13}, {256, 6, 6}, 9},
        Case{"upsample", "upsample", R"({"factor": 2})", {16, 4, 4}, {16, 8, 8}, 1},
        Case{"upsample_flat", "upsample", R"({"factor": [1, 2, 2]})", {16, 6, 4, 4}, {16, 6, 8, 8}, 1},
        Case{"mean", "mean", "{}", {128, 768}, {768}, 128},
        Case{"mean_last", "mean", R"({"axis": 1})", {128, 768}, {128}, 768}),
    [](const auto& info) { return info.param.name; });

TEST(PoolErrors, SayWhatDoesNotFit) {
  EXPECT_THAT(error_of([] {
                lower_one("max-pool", {{4, 2, 2}}, R"({"kernel": 3})");
              }),
              HasSubstr("window of 3"));
  EXPECT_THAT(error_of([] {
                lower_one("mean", {{4, 2}}, R"({"axis": 2})");
              }),
              HasSubstr("\"axis\" is 2, outside 0 .. 1"));
  EXPECT_THAT(error_of([] {
                lower_one("adaptive-pool", {{4, 2, 2}}, "{}");
              }),
              HasSubstr("\"size\" is missing"));
}

}  // namespace
}  // namespace tandem::tests
