// SPDX-License-Identifier: Apache-2.0
// One word for one thing, and the one that the field uses (docs/glossary.md). What is listed here was once
// said otherwise.
#include <gtest/gtest.h>

#include <regex>
#include <string>

#include "tests/style/sources.h"

namespace tandem::tests {
namespace {

struct Retired {
  std::regex pattern;
  const char* instead;
};

const Retired kRetired[] = {
    {std::regex(R"(\bWire\b|\bwire_(steps?|message|cpu)\b)"), "TCP transport"},
    {std::regex(R"(\bPace\b|\bpaced\b|--pace\b)"), "rate limit"},
    {std::regex(R"(\b[Pp]lay(s|ed|ing)?\b)"), "emulate, run"},
    {std::regex(R"(--turns\b)"), "repetition"},
    {std::regex(R"(\bexec::Network\b)"), "ExecutionGraph"},
    {std::regex(R"(\bSpread\b|Payload::share\b)"), "sharding, shard"},
    {std::regex(R"(\b[Ss]ettle[sd]?\b)"), "resolve"},
    {std::regex(R"(\balike\(|_alike\b|\b[Uu]nlike\()"), "uniform, what differs"},
    {std::regex(R"(\.halves\b|\bhalves<|\bwiden(s|ed)?\()"), "half operands, upcast"},
    {std::regex(R"(run/rate\.h|plain\.cu\b)"), "learning_rate.h, fallback.cu"},
};

TEST(Words, AreThoseOfTheField) {
  for (const Source& source : sources()) {
    if (source.folder == "tests") continue;
    for (std::size_t i = 0; i < source.lines.size(); ++i) {
      for (const Retired& word : kRetired) {
        EXPECT_FALSE(std::regex_search(source.lines[i], word.pattern))
            << source.path << ":" << i + 1 << ": say " << word.instead << ": " << source.lines[i];
      }
    }
  }
}

}  // namespace
}  // namespace tandem::tests
