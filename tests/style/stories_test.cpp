// SPDX-License-Identifier: Apache-2.0
// What the pages of docs/stories show is what their commands print. TANDEM_UPDATE_DOCS=1 rewrites them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include "base/text.h"
#include "tests/app/tool.h"

namespace tandem::tests {
namespace {

namespace fs = std::filesystem;

const std::string kStories = TANDEM_ROOT "/docs/stories";

/// Lines of a page that show output: those numbered `from` to `to` (from 1) of what a command prints.
struct Shown {
  std::string command;
  std::size_t from = 1, to = 1'000'000;
  std::size_t first = 0, last = 0;  ///< lines of the page, `last` excluded
};

/// In blocks of code: what follows "$ COMMAND", or of the command before it where "<!-- lines 3-9 -->" stands
/// above the block, which also selects lines after a command.
std::vector<Shown> shown(const std::vector<std::string>& page) {
  static const std::regex lines(R"(<!-- lines (\d+)-(\d+) -->)");
  std::vector<Shown> out;
  std::string command;
  std::smatch at;
  for (std::size_t i = 0; i < page.size(); ++i) {
    if (!page[i].starts_with("```")) continue;
    Shown one;
    const bool selects = i > 0 && std::regex_match(page[i - 1], at, lines);
    if (selects) one.from = std::stoul(at[1]), one.to = std::stoul(at[2]);
    const bool asks = i + 1 < page.size() && page[i + 1].starts_with("$ ");
    if (asks) command = page[++i].substr(2);
    while (asks && command.ends_with('\\')) {
      const std::string& next = page.at(++i);
      command = command.substr(0, command.size() - 1) + next.substr(next.find_first_not_of(' '));
    }
    one.command = command;
    one.first = ++i;
    while (i < page.size() && !page[i].starts_with("```")) ++i;
    one.last = i;
    if (asks || selects) out.push_back(one);
  }
  return out;
}

/// As a person gets it in a window of 80 columns.
std::string printed(const std::string& command) {
  const Scratch scratch;
  const std::string fake = scratch.write("tandem", "#!/bin/sh\nexec \"" TANDEM_BINARY "\" \"$@\"\n");
  fs::permissions(fake, fs::perms::owner_all);
  const ChildResult result =
      shell("cd '" + scratch.file("") + "' && export PATH=\"$PWD:$PATH\" COLUMNS=80 && " + command);
  EXPECT_EQ(result.status, 0) << command << "\n" << result.err;
  return result.out;
}

std::string join(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += (&line == &lines.front() ? "" : "\n") + line;
  return out;
}

TEST(Stories, ShowWhatTheirCommandsPrint) {
  std::map<std::string, std::vector<std::string>> outputs;
  int stories = 0;
  for (const auto& entry : fs::directory_iterator(kStories)) {
    const std::string path = entry.path().string();
    std::vector<std::string> page = base::split(slurp(path), '\n');
    const std::vector<Shown> all = shown(page);
    EXPECT_FALSE(all.empty()) << path;
    ++stories;
    for (auto one = all.rbegin(); one != all.rend(); ++one) {  // from the end: updates move what comes after
      const auto [output, fresh] = outputs.try_emplace(one->command);
      if (fresh) output->second = base::split(printed(one->command), '\n');
      std::vector<std::string> wanted;
      for (std::size_t i = one->from; i <= std::min(one->to, output->second.size()); ++i)
        wanted.push_back(output->second[i - 1]);
      if (one->to >= output->second.size() && !wanted.empty() && wanted.back().empty()) wanted.pop_back();
      const auto first = page.begin() + static_cast<std::ptrdiff_t>(one->first);
      const auto last = page.begin() + static_cast<std::ptrdiff_t>(one->last);
      if (std::getenv("TANDEM_UPDATE_DOCS") != nullptr)
        page.insert(page.erase(first, last), wanted.begin(), wanted.end());
      else
        EXPECT_EQ(join({first, last}), join(wanted)) << path << ": " << one->command;
    }
    if (std::getenv("TANDEM_UPDATE_DOCS") != nullptr) base::write_file(path, join(page));
  }
  EXPECT_GE(stories, 3);
}

/// A figure in the text that no command prints would stay when it changes.
TEST(Stories, ExplainOnlyFiguresThatTheyShow) {
  static const std::regex figure(R"([0-9][0-9,.]*[0-9]|[0-9])");
  for (const auto& entry : fs::directory_iterator(kStories)) {
    std::string code, text;
    bool inside = false;
    for (const std::string& line : base::split(slurp(entry.path().string()), '\n')) {
      if (line.starts_with("```")) inside = !inside;
      if (!line.starts_with("<!--") && !line.starts_with("```")) (inside ? code : text) += line + "\n";
    }
    text = std::regex_replace(text, std::regex(R"(\]\([^)]*\)|`[^`]*`)"), "");
    for (std::sregex_iterator at(text.begin(), text.end(), figure), end; at != end; ++at) {
      EXPECT_TRUE(std::regex_search(code, std::regex("(^|[^0-9,.])" + at->str() + "([^0-9]|$)")))
          << entry.path() << ": " << at->str();
    }
  }
}

}  // namespace
}  // namespace tandem::tests
