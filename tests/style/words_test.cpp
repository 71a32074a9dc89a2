// SPDX-License-Identifier: Apache-2.0
// One word for one thing, and the one that the field uses (docs/glossary.md). What is listed here was once
// said otherwise.
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <string>
#include <vector>

#include "tests/style/sources.h"

namespace tandem::tests {
namespace {

struct Retired {
  std::vector<std::string>
      parts;  ///< one of them is in every match: the pattern is tried on such lines alone
  std::regex pattern;
  const char* instead;
};

const Retired kRetired[] = {
    {{"Wire", "wire_"}, std::regex(R"(\bWire\b|\bwire_(steps?|message|cpu)\b)"), "TCP transport"},
    {{"Pace", "pace"}, std::regex(R"(\bPace\b|\bpaced\b|--pace\b)"), "rate limit"},
    {{"Play", "play"}, std::regex(R"(\b[Pp]lay(s|ed|ing)?\b)"), "emulate, run"},
    {{"--turns"}, std::regex(R"(--turns\b)"), "repetition"},
    {{"exec::Network"}, std::regex(R"(\bexec::Network\b)"), "ExecutionGraph"},
    {{"Spread", "Payload::share"}, std::regex(R"(\bSpread\b|Payload::share\b)"), "sharding, shard"},
    {{"Settle", "settle"}, std::regex(R"(\b[Ss]ettle[sd]?\b)"), "resolve"},
    {{"alike", "nlike"}, std::regex(R"(\balike\(|_alike\b|\b[Uu]nlike\()"), "uniform, what differs"},
    {{"halves", "widen"}, std::regex(R"(\.halves\b|\bhalves<|\bwiden(s|ed)?\()"), "half operands, upcast"},
    {{"run/rate.h", "plain.cu"}, std::regex(R"(run/rate\.h|plain\.cu\b)"), "learning_rate.h, fallback.cu"},
};

bool says(const std::string& line, const Retired& word) {
  return std::any_of(word.parts.begin(), word.parts.end(),
                     [&](const std::string& part) { return line.find(part) != std::string::npos; }) &&
         std::regex_search(line, word.pattern);
}

TEST(Words, AreThoseOfTheField) {
  for (const Source& source : sources()) {
    if (source.folder == "tests") continue;
    for (std::size_t i = 0; i < source.lines.size(); ++i) {
      for (const Retired& word : kRetired) {
        EXPECT_FALSE(says(source.lines[i], word))
            << source.path << ":" << i + 1 << ": say " << word.instead << ": " << source.lines[i];
      }
    }
  }
}

TEST(Words, AreFound) {
  EXPECT_TRUE(says("  wire_steps(2);", kRetired[0]));
  EXPECT_TRUE(says("who plays it", kRetired[2]));
  EXPECT_FALSE(says("who displays it", kRetired[2]));
  EXPECT_TRUE(says("devices_alike", kRetired[7]));
  EXPECT_TRUE(says("if (unlike(a))", kRetired[7]));
}

}  // namespace
}  // namespace tandem::tests
