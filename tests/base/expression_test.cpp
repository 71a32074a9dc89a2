// SPDX-License-Identifier: Apache-2.0
#include "base/expression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::tests {
namespace {

using testing::HasSubstr;

int64_t value(const std::string& text) {
  Variables outer;
  outer.set("width", 64);
  outer.set("layers", 12);
  Variables inner(&outer);
  inner.set("index", 3);
  return evaluate(text, inner, {});
}

TEST(Expression, FollowsTheRulesOfArithmetic) {
  EXPECT_EQ(value("=width*4+1"), 257);
  EXPECT_EQ(value("=1+width*4"), 257);
  EXPECT_EQ(value("= ( 1 + width ) * 4 "), 260);
  EXPECT_EQ(value("=10-2-3"), 5);
  EXPECT_EQ(value("=64/4/2"), 8);
  EXPECT_EQ(value("=64/4*2"), 32);
  EXPECT_EQ(value("=-width+2*-3"), -70);
  EXPECT_EQ(value("=--5"), 5);
  EXPECT_EQ(value("=9223372036854775807"), INT64_MAX);
  EXPECT_EQ(value("=index"), 3);
}

TEST(Expression, InnerNamesHideOuterOnes) {
  Variables outer;
  outer.set("a", 1);
  outer.set("b", 2);
  Variables inner(&outer);
  inner.set("a", 10);
  EXPECT_EQ(evaluate("=a+b", inner, {}), 12);
  EXPECT_EQ(evaluate("=a+b", outer, {}), 3);
  EXPECT_EQ(inner.outermost(), &outer);
  EXPECT_THAT(inner.names(), testing::ElementsAre("a", "a", "b"));
}

struct Bad {
  std::string text, says;
  friend void PrintTo(const Bad& b, std::ostream* out) { *out << b.text; }
};
class BadExpression : public testing::TestWithParam<Bad> {};
TEST_P(BadExpression, IsRefusedWithItsReason) {
  try {
    value(GetParam().text);
    FAIL() << "not refused";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr(GetParam().says));
  }
}
INSTANTIATE_TEST_SUITE_P(
    All, BadExpression,
    testing::Values(
        Bad{"=", "ends too early"}, Bad{"=1+", "ends too early"}, Bad{"=(1", "lacks a ')'"},
        Bad{"=1)", "unexpected ')'"}, Bad{"=1 2", "unexpected '2'"}, Bad{"=1.5", "unexpected '.'"},
        Bad{"=with*2", "unknown name \"with\". Did you mean width"},
        Bad{"=width/3", "does not divide evenly: 64 / 3"}, Bad{"=width/(layers-12)", "divides by zero"},
        Bad{"=9223372036854775808", "does not fit 64 bits"}, Bad{"=9223372036854775807+1", "overflows"},
        Bad{"=-9223372036854775807-2", "overflows"}, Bad{"=4611686018427387904*2", "overflows"},
        Bad{"=(-9223372036854775807-1)/-1", "overflows"}, Bad{"=-(-9223372036854775807-1)", "overflows"},
        Bad{"width", "not an expression"}, Bad{"=" + std::string(300, '1'), "longer than 256"},
        Bad{"=" + std::string(40, '(') + "1" + std::string(40, ')'), "nested deeper than 32"},
        Bad{"=" + std::string(200, '-') + "1", "nested deeper than 32"}));

}  // namespace
}  // namespace tandem::tests
