// SPDX-License-Identifier: Apache-2.0
#include "tests/models/helpers.h"

namespace tandem::tests {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Attributes, ReadsWhatIsThereAndFallsBackOtherwise) {
  const Json json =
      Json::parse(R"({"a": 3, "r": 0.5, "b": false, "one": 1, "t": "same", "l": [1, 2], "n": 7})", "x.json");
  const Attributes a(json);
  EXPECT_EQ(a.integer("a"), 3);
  EXPECT_EQ(a.integer("missing", 9), 9);
  EXPECT_DOUBLE_EQ(a.real("r", 1), 0.5);
  EXPECT_FALSE(a.boolean("b", true));
  EXPECT_TRUE(a.boolean("one", false));
  EXPECT_EQ(a.text("t", ""), "same");
  EXPECT_TRUE(a.is_text("t"));
  EXPECT_FALSE(a.is_text("a"));
  EXPECT_THAT(a.list("l", 2, 0), ElementsAre(1, 2));
  EXPECT_THAT(a.list("n", 3, 0), ElementsAre(7, 7, 7));
  EXPECT_THAT(a.list("none", 2, 4), ElementsAre(4, 4));
  EXPECT_THAT(a.sizes("n", 1), ElementsAre(7));
  EXPECT_NO_THROW(a.finish());
}

TEST(Attributes, ErrorsNameKeyPlaceAndRange) {
  const Json json = Json::parse("{\"kernel\": 0,\n \"filtres\": 3, \"l\": [1, 2], \"b\": 2}", "x.json");
  const Attributes a(json);
  EXPECT_THAT(error_of([&] { a.integer("kernel"); }),
              AllOf(HasSubstr("x.json:1:12"), HasSubstr("\"kernel\" is 0, outside 1 ..")));
  EXPECT_THAT(error_of([&] { a.integer("filters"); }),
              AllOf(HasSubstr("\"filters\" is missing"), HasSubstr("filtres")));
  EXPECT_THAT(error_of([&] { a.list("l", 3, 0); }), HasSubstr("has 2 numbers for 3 dimensions"));
  EXPECT_THAT(error_of([&] { a.sizes("size", 2); }), HasSubstr("\"size\" is missing"));
  EXPECT_THAT(error_of([&] { a.boolean("b", true); }), HasSubstr("\"b\" is 2"));
  EXPECT_THAT(error_of([&] { a.finish(); }),
              AllOf(HasSubstr("x.json:2:13"), HasSubstr("unknown attribute \"filtres\""),
                    HasSubstr("Did you mean filters")));
}

}  // namespace
}  // namespace tandem::tests
