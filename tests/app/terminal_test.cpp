// SPDX-License-Identifier: Apache-2.0
// What stands on a terminal: words stay whole, progress overwrites itself; and in a log: a line now and then.
#include "app/console/terminal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "app/console/cli.h"
#include "app/console/output.h"
#include "app/console/table.h"
#include "base/text.h"
#include "tests/app/tool.h"

namespace tandem::tests {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// What the program shows on a terminal of so many columns, stdout and stderr together.
std::string on_terminal(std::vector<std::string> words, uint16_t columns) {
  words.insert(words.begin(), TANDEM_BINARY);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  winsize size{24, columns, 0, 0};
  int terminal = -1;
  const pid_t pid = forkpty(&terminal, nullptr, nullptr, &size);
  if (pid == 0) {
    unsetenv("COLUMNS");
    setenv("TERM", "xterm", 1);
    execv(argv[0], argv.data());
    _exit(127);
  }
  std::string out;
  char buffer[4096];
  for (ssize_t got = 0; (got = read(terminal, buffer, sizeof buffer)) > 0;)
    out.append(buffer, static_cast<std::size_t>(got));
  close(terminal);
  int status = 0;
  waitpid(pid, &status, 0);
  std::erase(out, '\r');
  return out;
}

/// The text's words, sorted, without the colons after heads of columns that went below their row.
std::vector<std::string> words_of(std::string text) {
  for (char& c : text) c = c == '\n' || c == ':' ? ' ' : c;
  std::vector<std::string> out = split(text, ' ');
  std::erase(out, "");
  std::sort(out.begin(), out.end());
  return out;
}

std::size_t longest_line(const std::string& text) {
  std::size_t longest = 0;
  for (const std::string& line : split(text, '\n')) longest = std::max(longest, width(line));
  return longest;
}

TEST(Wrapped, BreaksBetweenWordsAndKeepsIndentation) {
  EXPECT_EQ(wrapped("one two three", 8), "one two\nthree");
  EXPECT_EQ(wrapped("one two\nthree four", 7), "one two\nthree\nfour");
  EXPECT_EQ(wrapped("  one two three", 10), "  one two\n  three");
  EXPECT_EQ(wrapped("  --a    one two", 16), "  --a    one two");
  EXPECT_EQ(wrapped("  -a    one two three", 18), "  -a    one two\n        three");
  EXPECT_EQ(wrapped("µµµ µµµ", 7), "µµµ µµµ") << "counts characters, not bytes";
  EXPECT_EQ(wrapped("a-very-long-word is whole", 6), "a-very-long-word\nis\nwhole");
  EXPECT_EQ(wrapped("no  limit \n", 0), "no  limit \n");
}

TEST(CutOff, KeepsAsManyCharacters) {
  EXPECT_EQ(cut_off("simulating", 10), "simulating");
  EXPECT_EQ(cut_off("simulating", 5), "simu…");
  EXPECT_EQ(cut_off("µµµµ", 3), "µµ…");
  EXPECT_EQ(cut_off("simulating", 0), "simulating");
}

TEST(Table, BreaksTheLastColumnThenPutsItBelowThenListsRows) {
  Table table({{"n", true}, {"rate", true}, {"bound by"}});
  table.add({"1", "1,234", "pcie bandwidth, 50 % of the step of all workers"});
  EXPECT_EQ(table.text(true, 40),
            "n    rate   bound by\n"
            "1   1,234   pcie bandwidth, 50 % of the\n"
            "            step of all workers\n");
  EXPECT_EQ(table.text(true, 32),
            "n    rate\n"
            "1   1,234\n"
            "    bound by: pcie bandwidth, 50 %\n"
            "              of the step of all\n"
            "              workers\n");
  Table numbers({{"n", true}, {"first rate", true}, {"second rate", true}});
  numbers.add({"1", "10", "20"});
  numbers.add({"2", "", "21"});
  EXPECT_EQ(numbers.text(true, 20),
            "n             1\nfirst rate    10\nsecond rate   20\n\nn             2\nsecond rate   21\n");
}

TEST(Terminal, NoAnswerIsWiderThanItAndNoWordIsLost) {
  const std::vector<std::vector<std::string>> asked = {
      {"predict", "--model", "vgg16", "--system", "v100-pcie-8x", "--scheme", "pytorch-ddp"},
      {"predict", "--model", "gpt2", "--system", "dgx1-v100", "--batch", "1", "--elasticities"},
      {"compare", "v100-pcie-8x", "dgx1-v100", "--model", "resnet50,vgg16"},
      {"predict", "--model", "gpt2", "--system", "dgx-a100", "--batch", "8", "--scheme",
       "parameter-server:mode=async", "--devices", "1,8", "--mtbf", "100h"},
      {"collective", "--system", "dgx1-v100", "--to", "4KiB"},
      {"list", "systems"},
      {"show", "scheme", "pytorch-ddp"},
      {"show", "model", "alexnet"},
      {"show", "device", "v100-pcie"},
      {"help"}};
  for (auto words : asked) {
    SCOPED_TRACE(words[0] + " " + words.back());
    words.emplace_back("--quiet");
    if (words[0] == "help") words.pop_back();
    const std::string narrow = on_terminal(words, 80);
    EXPECT_LE(longest_line(narrow), 80u) << narrow;
    EXPECT_THAT(narrow, Not(HasSubstr(" \n")));
    const std::string piped = tool(words).out;
    const std::vector<std::string> all = words_of(piped), shown = words_of(narrow);
    if (narrow.find("Left out: ") == std::string::npos)
      EXPECT_TRUE(std::includes(shown.begin(), shown.end(), all.begin(), all.end()));
    if (words[0] == "help") continue;
    words.emplace_back("--wide");
    EXPECT_EQ(on_terminal(words, 80), piped);
  }
}

TEST(Terminal, HelpOfEveryVerbFits) {
  for (const Verb& verb : verbs_registry().all()) {
    SCOPED_TRACE(verb.name);
    EXPECT_LE(longest_line(on_terminal({std::string(verb.name), "--help"}, 80)), 80u);
    EXPECT_LE(longest_line(tool({std::string(verb.name), "--help"}).out), 80u) << "without a terminal";
  }
}

TEST(Terminal, ErrorsBreakBetweenWords) {
  const std::string shown = on_terminal({"export", "chrom-trace", "x"}, 40);
  EXPECT_LE(longest_line(shown), 40u + 11u) << "colour takes no room: " << shown;
  EXPECT_THAT(shown, HasSubstr("chrome-trace"));
  EXPECT_GT(std::count(shown.begin(), shown.end(), '\n'), 1);
}

TEST(Terminal, ProgressOverwritesItsLine) {
  const std::string shown = on_terminal(
      {"predict", "--model", "lenet5", "--system", "dgx1-v100", "--devices", "1,2", "--out", "/dev/null"},
      20);
  EXPECT_THAT(shown, HasSubstr("simulating 2 devic…"));
  EXPECT_EQ(std::count(shown.begin(), shown.end(), '\n'), 0) << shown;
}

TEST(Progress, WithoutATerminalIsALineNowAndThen) {
  const Arguments none;
  testing::internal::CaptureStderr();
  {
    Progress progress(none, std::chrono::milliseconds(20));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // nothing to tell yet
    progress.show("measuring");
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  const std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_THAT(lines, HasSubstr("tandem: after 0 min 00 s: measuring\n"));
  EXPECT_GE(std::count(lines.begin(), lines.end(), '\n'), 2);
  testing::internal::CaptureStderr();
  {
    Progress progress(none);
    progress.show("short");
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << "what is done soon says nothing";
}

TEST(Progress, SaysTheTimeLeftOrTaken) {
  const Arguments none;
  const auto patience = std::chrono::milliseconds(1200);
  testing::internal::CaptureStderr();
  {
    Progress progress(none, std::chrono::milliseconds(100));
    progress.show("half", 0.0);
    std::this_thread::sleep_for(patience);
    progress.show("half", 0.5);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    progress.show("another", 0.25);
    progress.show("unknown");
    std::this_thread::sleep_for(patience);
  }
  const std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_THAT(lines, HasSubstr(": half\n"));
  EXPECT_THAT(lines, testing::ContainsRegex(": half · 50 %, [0-9]+ s left\n"));
  EXPECT_THAT(lines, testing::ContainsRegex(": unknown · [0-9]+ s so far\n"));
  EXPECT_EQ(duration_words(3661), "1 h 01 min");
}

TEST(Progress, QuietIsQuiet) {
  const Verb& predict = *verbs_registry().find("predict");
  const Arguments quiet = Arguments::parse(predict, {"--quiet"});
  testing::internal::CaptureStderr();
  {
    Progress progress(quiet, std::chrono::milliseconds(10));
    progress.show("measuring");
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace tandem::tests
