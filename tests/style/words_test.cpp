// SPDX-License-Identifier: Apache-2.0
// One word for one thing, and the one that the field uses (docs/glossary.md). What is listed here was once
// said otherwise. Documents, comments and messages are also kept free of private phrases, and comments of
// references to files that are gone.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
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

/// What an engineer does not say aloud. A part is in every match, as above.
const Retired kPrivate[] = {
    {{"in the mean"}, std::regex(R"(\bin the mean\b)"), "on average"},
    {{"anew"}, std::regex(R"(\banew\b)"), "again"},
    {{"nowhere"}, std::regex(R"(\bcounts? nowhere\b)"), "not scored, ignored"},
    {{"for nobody"}, std::regex(R"(\bfor nobody\b)"), "asynchronous, independent"},
    {{"made again"}, std::regex(R"(\bmade again\b)"), "recomputed"},
    {{"behind the other"}, std::regex(R"(\bone behind the other\b)"), "one after another"},
    {{"so many"}, std::regex(R"(\b[Ss]o many\b)"), "that many, the number of"},
    {{"alike"}, std::regex(R"(\balike\b)"), "equal, the same"},
    {{"turn"},
     std::regex(R"(\b(by turns|in turns?|takes? turns)\b)"),
     "one by one, alternately, in time slices"},
    {{"set on"},
     std::regex(R"(\b(was|were|is|are|be) set on\b|\bset on (published|rows|them|it)\b)"),
     "fitted to"},
    {{"of its own", "of their own"},
     std::regex(
         R"(\b(?!no |[Nn]o |without |[Ww]ithout |those |none )\w+ [\w'-]+ of (its|their) own\b(?! \w))"),
     "its own X"},
    {{"beside"}, std::regex(R"(\bbeside\b(?!`|\())"), "next to, besides, during, with"},
    {{"behind"}, std::regex(R"(\bbehind (it|them|that|those|each|all|its own)\b)"), "after, past, below"},
    {{"sort"}, std::regex(R"(\b(each|every|one|this|that|the|by|same) sorts?\b(?! by| in| order))"), "kind"},
    {{"for good"}, std::regex(R"(\bfor good\b)"), "permanently"},
    {{"to be told"}, std::regex(R"(\b(is|are) (not )?to be told\b)"), "is estimated, is known"},
};

/// Its comment, or "".
std::string comment_of(const std::string& line) {
  const std::size_t at = line.find("//");
  return at == std::string::npos ? "" : line.substr(at);
}

/// What stands between quotes in it, or "": messages, help, names.
std::string texts_of(const std::string& line) {
  static const std::regex text(R"("(?:[^"\\]|\\.)*")");
  std::string out;
  if (line.find('"') == std::string::npos || line.starts_with("#")) return out;
  for (std::sregex_iterator it(line.begin(), line.end(), text), end; it != end; ++it) out += it->str();
  return out;
}

/// Names and reasons in reports that stay as they are.
const char* const kKept[] = {"kernels beside collectives", "\"beside\"", "\"beside{} {}\"", "\"beside.{}\"",
                             "so many instances divide the links"};

/// Calls look(path, line number, text) for every line of the documents written by hand, for every comment and
/// for every text between quotes.
template <typename Look>
void for_all_prose(const Look& look) {
  for (const Source& source : sources()) {
    if (source.folder == "tests") continue;
    for (std::size_t i = 0; i < source.lines.size(); ++i) {
      const std::string& line = source.lines[i];
      look(source.path, i + 1, comment_of(line));
      if (!source.header()) look(source.path, i + 1, texts_of(line));
    }
  }
  for (const char* folder : {"", "docs", "docs/formats", "schemes"}) {
    for (const auto& entry : std::filesystem::directory_iterator(fs::path(TANDEM_ROOT) / folder)) {
      if (entry.path().extension() != ".md" || entry.path().filename() == "VALIDATION.md") continue;
      std::ifstream file(entry.path());
      std::size_t number = 0;
      for (std::string line; std::getline(file, line);) look(entry.path().string(), ++number, line);
    }
  }
}

TEST(Prose, IsWhatAnEngineerSays) {
  for_all_prose([](const std::string& path, std::size_t number, const std::string& text) {
    if (std::any_of(std::begin(kKept), std::end(kKept),
                    [&](const char* kept) { return text.find(kept) != std::string::npos; }))
      return;
    for (const Retired& word : kPrivate)
      EXPECT_FALSE(says(text, word)) << path << ":" << number << ": say " << word.instead << ": " << text;
  });
}

TEST(Prose, IsFound) {
  const auto found = [](const std::string& text) {
    return std::any_of(std::begin(kPrivate), std::end(kPrivate),
                       [&](const Retired& word) { return says(text, word); });
  };
  for (const char* bad : {"late by two steps in the mean", "written anew", "three rows count nowhere",
                          "a stage has buffers of its own", "workers that are alike", "on so many devices",
                          "kernels beside it", "they take turns", "the tensors behind it",
                          "one sort of device", "slow for good", "a constant that was set on rows"})
    EXPECT_TRUE(found(bad)) << bad;
  for (const char* good :
       {"a library without kernels of its own", "false: beside() is always 1", "the time since a new one",
        "turns into", "those of its own nodes", "a worker that fell behind joins"})
    EXPECT_FALSE(found(good)) << good;
}

/// Comments name files by their path from the root, or by their name where only one has it.
TEST(Comments, NameFilesThatExist) {
  static const std::regex file(R"((?:^|[^\w/.-])((?:[a-z_]+/)*[A-Za-z0-9_]+\.(?:h|cpp|md))\b)");
  std::set<std::string> names;
  for (const Source& source : sources()) names.insert(fs::path(source.path).filename().string());
  int checked = 0;
  for (const Source& source : sources()) {
    if (source.folder == "tests") continue;
    for (std::size_t i = 0; i < source.lines.size(); ++i) {
      const std::string text = comment_of(source.lines[i]);
      if (text.find(".h") == std::string::npos && text.find(".cpp") == std::string::npos &&
          text.find(".md") == std::string::npos)
        continue;
      for (std::sregex_iterator it(text.begin(), text.end(), file), end; it != end; ++it) {
        const std::string name = (*it)[1];
        const std::size_t slash = name.find('/');
        const bool ours = slash == std::string::npos || kFloors.count(name.substr(0, slash)) != 0 ||
                          name.starts_with("docs/");
        const bool theirs = name.starts_with("include/") && !name.starts_with("include/tandem/");
        if (!ours || theirs) continue;  // of another project
        ++checked;
        EXPECT_TRUE(fs::exists(fs::path(TANDEM_ROOT) / name) || names.count(name) != 0 ||
                    fs::exists(fs::path(TANDEM_ROOT) / "schemes" / name) ||
                    fs::exists(fs::path(TANDEM_ROOT) / "docs" / name))
            << source.path << ":" << i + 1 << ": " << name;
      }
    }
  }
  EXPECT_GT(checked, 100);
}

}  // namespace
}  // namespace tandem::tests
