// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace tandem::tests {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string refusal(const std::string& text, const JsonLimits& limits = {}) {
  try {
    Json::parse(text, "f.json", limits);
  } catch (const InputError& e) {
    return e.what();
  }
  return "understood";
}

Json parsed(const std::string& text) { return Json::parse(text, "f.json"); }

template <typename Read>
std::string complaint(const Read& read) {
  try {
    read();
  } catch (const InputError& e) {
    return e.what();
  }
  return "none";
}

TEST(Json, RemembersWhereValuesStand) {
  const Json j = parsed("{\n  // note\n  \"a\": 7, /* b */ \"b\": [1.5,\n    \"x\"]\n}");
  EXPECT_EQ(j.at("a").as_int(), 7);
  EXPECT_EQ(j.at("a").place().text(), "f.json:3:8");
  EXPECT_DOUBLE_EQ(j.at("b").items()[0].as_real(), 1.5);
  EXPECT_EQ(j.at("b").items()[1].place().text(), "f.json:4:5");
  EXPECT_EQ(j.keys(), (std::vector<std::string>{"a", "b"}));
}

TEST(Json, RefusesHostileText) {
  EXPECT_THAT(refusal("{\"a\": 1,\n \"a\": 2}"), StartsWith("f.json:2:"));
  EXPECT_THAT(refusal("{\"a\": 1"), StartsWith("f.json:1:"));
  EXPECT_THAT(refusal("{\"a\": 1e999}"), ::testing::Eq("f.json:1:7: the number 1e999 is too large"));
  EXPECT_THAT(refusal("[18446744073709551615]"), HasSubstr("does not fit"));
  EXPECT_THAT(refusal("{} {}"), StartsWith("f.json:1:"));
  EXPECT_THAT(refusal("[NaN]"), StartsWith("f.json:1:"));
  EXPECT_THAT(refusal("\"\xc3\x28\""), StartsWith("f.json:1:"));
  EXPECT_NE(refusal(std::string(65, '[') + std::string(65, ']')), "understood");
  EXPECT_EQ(refusal(std::string(60, '[') + std::string(60, ']')), "understood");
  EXPECT_NE(refusal("[1, 2, 3]", {.nodes = 3}), "understood");
  EXPECT_NE(refusal("[1, 2, 3]", {.bytes = 5}), "understood");
}

TEST(Json, ReadersSayWhatTheyExpected) {
  const Json j = parsed(R"({"n": 5, "s": "text", "t": "25us", "half": 0.5})");
  EXPECT_THAT(complaint([&] { j.at("s").as_int(); }), HasSubstr("whole number"));
  EXPECT_THAT(complaint([&] { j.at("n").as_int(6, 9); }), HasSubstr("outside 6 .. 9"));
  EXPECT_THAT(complaint([&] { j.at("half").as_int(); }), HasSubstr("whole number"));
  EXPECT_THAT(complaint([&] { j.at("n").as_time(); }), StartsWith("f.json:1:7: "));
  EXPECT_THAT(complaint([&] { j.at("absent"); }), HasSubstr("absent"));
  EXPECT_THAT(complaint([&] { j.only({"n", "s", "t"}); }), HasSubstr("half"));
  EXPECT_EQ(j.at("t").as_time().ps, 25'000'000);
  EXPECT_EQ(j.integer("absent", 42), 42);
  EXPECT_EQ(j.text("s", ""), "text");
  EXPECT_THAT(complaint([&] { j.items(); }), HasSubstr("expected"));
}

TEST(Json, PathsReplaceWhatStandsThere) {
  Json j = parsed(R"({"links": {"pcie": {"bandwidth": "12GB/s"}}, "list": [{"k": 1}]})");
  const Place place{std::make_shared<const std::string>("--set"), 0, 0};
  j.set_path("links.pcie.bandwidth", "32GB/s", place);
  j.set_path("list.0.k", "9", place);
  EXPECT_EQ(j.at("links").at("pcie").text("bandwidth", ""), "32GB/s");
  EXPECT_EQ(j.at("list").items()[0].at("k").as_int(), 9);
  const auto set = [&](const char* path) { return complaint([&] { j.set_path(path, "1", place); }); };
  EXPECT_THAT(set("links.pci.bandwidth"), HasSubstr("Did you mean pcie?"));
  EXPECT_THAT(set("list.1.k"), HasSubstr("not an index below 1"));
  EXPECT_THAT(set("list.-1.k"), HasSubstr("not an index"));
  EXPECT_NE(set("links.pcie.latency"), "none");
  EXPECT_NE(set("links.pcie.bandwidth.x"), "none");
  EXPECT_NE(set(""), "none");
  j.set_path("links.pcie.latency", "1us", place, true);
  EXPECT_EQ(j.at("links").at("pcie").at("latency").as_time().ps, 1'000'000);
}

TEST(Files, AreWrittenWholeOrNotAtAll) {
  const auto folder = std::filesystem::temp_directory_path() / "tandem-json-test";
  std::filesystem::create_directories(folder);
  const std::string path = (folder / "x.json").string();
  write_file(path, "[1]");
  write_file(path, "[1, 2]");
  EXPECT_EQ(read_file(path), "[1, 2]");
  EXPECT_EQ(Json::load(path).items().size(), 2u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1) << "a temporary file is left";
  EXPECT_THROW(read_file(path, 3), InputError);
  EXPECT_THROW(read_file(folder.string()), InputError);
  EXPECT_THROW(read_file((folder / "none").string()), InputError);
  EXPECT_THROW(write_file((folder / "no" / "x").string(), ""), InputError);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tandem::tests
