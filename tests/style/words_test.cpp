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
  const char* pattern;
  const char* instead;
};

const Retired kRetired[] = {
    {R"(\bWire\b|\bwire_(steps?|message|cpu)\b)", "TCP transport"},
    {R"(\bPace\b|\bpaced\b|--pace\b)", "rate limit"},
    {R"(\b[Pp]lay(s|ed|ing)?\b)", "emulate, run"},
    {R"(_turns\b|--turns\b)", "repetition"},
    {R"(\bexec::Network\b)", "ExecutionGraph"},
    {R"(\bSpread\b|Payload::share\b)", "sharding, shard"},
    {R"(\b[Ss]ettle[sd]?\b)", "resolve"},
    {R"(\balike\(|_alike\b|\b[Uu]nlike\()", "uniform, what differs"},
    {R"(\.halves\b|\bhalves<|\bwiden(s|ed)?\()", "half operands, upcast"},
    {R"(run/rate\.h|plain\.cu\b)", "learning_rate.h, fallback.cu"},
};

TEST(Words, AreThoseOfTheField) {
  for (const Source& source : sources()) {
    if (source.path == "tests/style/words_test.cpp" || source.folder == "tests") continue;
    for (std::size_t i = 0; i < source.lines.size(); ++i) {
      for (const Retired& word : kRetired) {
        EXPECT_FALSE(std::regex_search(source.lines[i], std::regex(word.pattern)))
            << source.path << ":" << i + 1 << ": say " << word.instead << ": " << source.lines[i];
      }
    }
  }
}

}  // namespace
}  // namespace tandem::tests
