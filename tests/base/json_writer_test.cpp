// SPDX-License-Identifier: Apache-2.0
#include "base/json_writer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "base/json.h"

namespace tandem::tests {
namespace {

TEST(JsonWriter, KeepsTheOrderOfKeys) {
  JsonWriter out = {{"z", 1}, {"a", true}, {"m", nullptr}};
  out["b"] = "text";
  out["a"] = false;  // keeps its place
  out["host"]["cores"] = 8;
  EXPECT_EQ(out.dump(), R"({"z":1,"a":false,"m":null,"b":"text","host":{"cores":8}})");
}

TEST(JsonWriter, NestsAndIndents) {
  JsonWriter out = {{"rows", JsonWriter::array()}, {"none", JsonWriter::object()}};
  EXPECT_EQ(out.dump(1), "{\n \"rows\": [],\n \"none\": {}\n}");
  out["rows"].push_back({{"bytes", 4096}, {"seconds", 1e-6}});
  out["rows"].back()["ranks"] = 2;
  EXPECT_EQ(out.dump(), R"({"rows":[{"bytes":4096,"seconds":1e-06,"ranks":2}],"none":{}})");
  EXPECT_EQ(JsonWriter(std::vector<double>{1, 2.5}).dump(2), "[\n  1.0,\n  2.5\n]");
  EXPECT_EQ(JsonWriter::array({"a", 1, JsonWriter::array({2})}).dump(), R"(["a",1,[2]])");
}

TEST(JsonWriter, NumbersReadBackAsTheSame) {
  for (const double value : {0.1, 1.0 / 3, 1e300, -0.0, 123456789.123456789}) {
    const std::string text = JsonWriter(value).dump();
    EXPECT_EQ(Json::parse(text, "number").as_real(), value) << text;
    EXPECT_NE(text.find_first_of(".e"), std::string::npos) << text << " is a real number";
  }
  EXPECT_EQ(JsonWriter(std::numeric_limits<int64_t>::min()).dump(), "-9223372036854775808");
  EXPECT_EQ(JsonWriter(std::numeric_limits<uint64_t>::max()).dump(), "18446744073709551615");
}

TEST(JsonWriter, RefusesWhatIsNotFinite) {
  const JsonWriter out = {{"rates", JsonWriter::array({1.0, std::nan("")})}};
  try {
    out.dump();
    FAIL() << "written";
  } catch (const std::logic_error& error) {
    EXPECT_NE(std::string(error.what()).find("\"rates\""), std::string::npos) << error.what();
  }
  EXPECT_THROW(JsonWriter(INFINITY).dump(), std::logic_error);
  EXPECT_EQ(JsonWriter::finite_or_null(INFINITY).dump(), "null");
  EXPECT_EQ(JsonWriter::finite_or_null(2).dump(), "2.0");
  EXPECT_TRUE(JsonWriter(std::optional<double>()).is_null());
}

TEST(JsonWriter, EscapesTextAndReplacesWhatIsNoUtf8) {
  EXPECT_EQ(JsonWriter("a\"\\\n\x01").dump(), R"("a\"\\\n\u0001")");
  EXPECT_EQ(JsonWriter("b\xff").dump(), "\"b\xef\xbf\xbd\"");
  EXPECT_EQ(JsonWriter("\xc3\xa9").dump(), "\"\xc3\xa9\"");
}

TEST(JsonWriter, WrapsWhatDoesNotFitIntoALine) {
  JsonWriter out = {{"short", {{"a", 1}, {"b", "x, \"y\": z"}}}};
  for (int i = 0; i < 30; ++i) out["long"].push_back(1000 + i);
  const std::string text = out.dump_wrapped();
  EXPECT_NE(text.find("  \"short\": {\"a\": 1, \"b\": \"x, \\\"y\\\": z\"},\n"), std::string::npos) << text;
  EXPECT_NE(text.find("  \"long\": [\n    1000,\n"), std::string::npos) << text;
  EXPECT_EQ(Json::parse(text, "wrapped").at("long").items().size(), 30u);
}

TEST(JsonWriter, OneKindAtATime) {
  JsonWriter number = 3;
  EXPECT_THROW(number["a"] = 1, std::logic_error);
  EXPECT_THROW(number.push_back(1), std::logic_error);
  EXPECT_THROW(JsonWriter::array().back(), std::logic_error);
}

}  // namespace
}  // namespace tandem::tests
