// SPDX-License-Identifier: Apache-2.0
// stdout carries the result only, in the format asked for, the same bytes every time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/console/cli.h"
#include "base/json.h"
#include "tests/app/tool.h"

namespace tandem::tests {
namespace {

using ::testing::HasSubstr;

std::vector<std::vector<std::string>> commands_with_json() {
  return {small_predict(),
          {"predict", "--model", "lenet5", "--system", "v100-pcie-8x", "--scheme",
           "parameter-server:mode=async", "--devices", "4"},
          {"list", "models"},
          {"list", "systems"},
          {"list", "devices"},
          {"list", "schemes"},
          {"list", "backends"},
          {"list", "collectives"},
          {"list", "kernels"},
          {"list", "layers"},
          {"list", "optimizers"},
          {"list", "profiles"},
          {"list", "verbs"},
          {"show", "model", "lenet5"},
          {"show", "system", "dgx1-v100"},
          {"show", "scheme", "pytorch-ddp"},
          {"show", "scheme", "allreduce", "--model", "lenet5"},
          {"show", "device", "v100-sxm2-16gb"},
          {"show", "layer", "conv"},
          {"show", "collective", "ring"},
          {"collective", "--system", "dgx1-v100", "--to", "4KiB"},
          {"doctor"}};
}

TEST(Streams, JsonIsOneValidDocumentAndNothingElse) {
  for (auto words : commands_with_json()) {
    SCOPED_TRACE(words[0] + " " + (words.size() > 1 ? words[1] : ""));
    words.insert(words.end(), {"--format", "json"});
    const ChildResult result = tool(words);
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.err, "");
    EXPECT_NO_THROW(Json::parse(result.out, "stdout"));
    EXPECT_EQ(result.out.back(), '\n');
  }
}

TEST(Streams, TextHasNoEscapesAndNoTrailingBlanks) {
  for (const auto& words : commands_with_json()) {
    SCOPED_TRACE(words[0] + " " + (words.size() > 1 ? words[1] : ""));
    const ChildResult result = tool(words);
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.err, "");
    EXPECT_EQ(result.out.find('\x1b'), std::string::npos);
    EXPECT_EQ(result.out.find(" \n"), std::string::npos);
  }
}

TEST(Streams, CsvIsRectangular) {
  for (const auto& words : {small_predict({"--format", "csv"}),
                            {"list", "kernels", "--format", "csv"},
                            {"collective", "--system", "dgx1-v100", "--to", "4KiB", "--format", "csv"}}) {
    const ChildResult result = tool(words);
    ASSERT_EQ(result.status, 0) << result.err;
    std::vector<int64_t> fields;
    int64_t commas = 0;
    bool quoted = false;
    for (const char c : result.out) {
      if (c == '"') quoted = !quoted;
      if (c == ',' && !quoted) ++commas;
      if (c == '\n' && !quoted) fields.push_back(commas), commas = 0;
    }
    EXPECT_GE(fields.size(), 2u);
    for (const int64_t f : fields) EXPECT_EQ(f, fields[0]) << result.out;
  }
}

TEST(Streams, SameInputsGiveTheSameBytes) {
  for (const auto& scheme : {"allreduce", "parameter-server:mode=async"}) {
    const auto words =
        small_predict({"--scheme", scheme, "--format", "json", "--reproducible", "--jitter", "0.2"});
    const ChildResult first = tool(words), second = tool(words);
    ASSERT_EQ(first.status, 0) << first.err;
    EXPECT_EQ(first.out, second.out);
    auto other = words;
    other.insert(other.end(), {"--seed", "2"});
    EXPECT_NE(tool(other).out, first.out);
  }
}

TEST(Streams, EveryVerbHasHelpThatNamesItsOptions) {
  for (const Verb& verb : verbs_registry().all()) {
    SCOPED_TRACE(verb.name);
    const ChildResult result = tool({std::string(verb.name), "--help"});
    EXPECT_EQ(result.status, 0);
    EXPECT_EQ(result.err, "");
    EXPECT_THAT(result.out, HasSubstr("Usage: tandem " + std::string(verb.name)));
    for (const Option& flag : verb.flags) EXPECT_THAT(result.out, HasSubstr("--" + std::string(flag.name)));
    EXPECT_EQ(tool({"help", std::string(verb.name)}).out, result.out);
    EXPECT_THAT(tool({}).out, HasSubstr(std::string(verb.name)));
  }
}

TEST(Streams, VersionNamesTheLibraries) {
  const ChildResult result = tool({"--version"});
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.out, HasSubstr("Boost"));
}

TEST(Streams, VersionIsAlsoADocument) {
  EXPECT_EQ(tool({"-V"}).out, tool({"--version"}).out);
  const ChildResult result = tool({"--version", "--format", "json"});
  EXPECT_EQ(result.status, 0) << result.err;
  const Json document = Json::parse(result.out, "stdout");
  const Json* commit = document.find("commit");
  EXPECT_EQ("tandem " + document.at("version").as_text() +
                (commit == nullptr ? "" : " commit " + commit->as_text()),
            tool({"-V"}).out.substr(0, tool({"-V"}).out.find('\n')));
  EXPECT_NE(tool({"--version", "--help"}).out.find("--format"), std::string::npos);
  EXPECT_NE(document.at("libraries").find("Boost"), nullptr);
  EXPECT_EQ(tool({"--version", "--format", "xml"}).status, 2);
}

TEST(Streams, ReaderThatLeavesIsNoError) {
  const ChildResult result = shell("\"$0\" show model resnet152 --format json | head -c 10");
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.err, "");
}

TEST(Streams, FullDiskIsAnError) {
  const ChildResult result = shell("\"$0\" list models > /dev/full");
  EXPECT_EQ(result.status, 3);
  EXPECT_THAT(result.err, HasSubstr("standard output"));
}

TEST(Streams, OutWritesTheSameBytesAsStdout) {
  const Scratch scratch;
  const auto words = small_predict({"--format", "json", "--reproducible"});
  auto with_out = words;
  with_out.insert(with_out.end(), {"--out", scratch.file("r.json")});
  EXPECT_EQ(tool(with_out).out, "");
  EXPECT_EQ(slurp(scratch.file("r.json")), tool(words).out);
}

TEST(Streams, OutToADeviceLeavesTheDevice) {
  ASSERT_EQ(tool({"list", "kernels", "--out", "/dev/null"}).status, 0);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST(Streams, InterruptEndsWith130) {
  const ChildResult result = shell(
      "\"$0\" predict --model resnet50 --system dgx1-v100 --scheme parameter-server:mode=async --devices 8 "
      "--iterations 1000000 & p=$!; sleep 0.3; kill -TERM $p; wait $p; exit $?");
  EXPECT_EQ(result.status, 143) << result.err;
}

}  // namespace
}  // namespace tandem::tests
