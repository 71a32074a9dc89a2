// SPDX-License-Identifier: Apache-2.0
// Documents against what they speak of: links, commands, options, figures copied from VALIDATION.md, lengths.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "app/console/cli.h"
#include "models/graph.h"
#include "tests/app/tool.h"
#include "topologies/blocks/network.h"

namespace tandem::tests {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const fs::path kRoot(TANDEM_ROOT);

std::string text_of(const fs::path& path) { return slurp((kRoot / path).string()); }

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

/// Documents written by hand, from the root.
std::vector<fs::path> documents() {
  std::vector<fs::path> out;
  const std::set<std::string> skipped = {"build", "plots", "shared", "validation"};
  for (auto it = fs::recursive_directory_iterator(kRoot); it != fs::recursive_directory_iterator(); ++it) {
    const std::string name = it->path().filename().string();
    if (it->is_directory() &&
        (skipped.count(name) != 0 || name.starts_with('.') || name.starts_with("build"))) {
      it.disable_recursion_pending();
      continue;
    }
    if (it->path().extension() == ".md" && name != "VALIDATION.md")
      out.push_back(fs::relative(it->path(), kRoot));
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::string> matches(const std::string& text, const std::regex& pattern) {
  std::vector<std::string> out;
  for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it)
    out.push_back((*it)[1]);
  return out;
}

/// The name by which a heading is linked to, as GitHub makes it.
std::string anchor(const std::string& heading) {
  std::string out;
  for (const char c : heading) {
    if (c == ' ') out += '-';
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_')
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out;
}

bool has_anchor(const fs::path& document, const std::string& wanted) {
  for (const std::string& line : lines_of(slurp(document.string()))) {
    const std::size_t level = line.find_first_not_of('#');
    if (level != std::string::npos && level > 0 && line[level] == ' ' &&
        anchor(line.substr(level + 1)) == wanted)
      return true;
  }
  return false;
}

/// VALIDATION.md and its pages, which the program writes.
std::vector<fs::path> written_documents() {
  std::vector<fs::path> out = {"VALIDATION.md"};
  for (const auto& entry : fs::directory_iterator(kRoot / "docs/validation"))
    out.push_back(fs::relative(entry.path(), kRoot));
  return out;
}

TEST(Documents, LinkToWhatExists) {
  static const std::regex link(R"(\]\(([^)\s]+)\))");
  ASSERT_GT(documents().size(), 15u);
  std::vector<fs::path> all = documents();
  for (const fs::path& written : written_documents()) all.push_back(written);
  int links = 0;
  for (const fs::path& document : all) {
    for (const std::string& to : matches(text_of(document), link)) {
      if (to.starts_with("http") || to.starts_with("mailto:")) continue;
      ++links;
      const std::size_t hash = to.find('#');
      const fs::path target =
          hash == 0 ? kRoot / document : (kRoot / document).parent_path() / to.substr(0, hash);
      EXPECT_TRUE(fs::exists(target)) << document << " links to " << to;
      EXPECT_TRUE(hash == std::string::npos || has_anchor(target, to.substr(hash + 1)))
          << document << " links to " << to;
    }
  }
  EXPECT_GT(links, 30);
}

TEST(Documents, AreReachedFromTheReadme) {
  static const std::regex link(R"(\]\(([^)#\s]+)[^)]*\))");
  std::set<fs::path> reached = {"README.md"};
  std::vector<fs::path> open = {"README.md"};
  while (!open.empty()) {
    const fs::path document = open.back();
    open.pop_back();
    for (const std::string& to : matches(text_of(document), link)) {
      const fs::path target = (document.parent_path() / to).lexically_normal();
      if (target.extension() == ".md" && fs::exists(kRoot / target) && reached.insert(target).second)
        open.push_back(target);
    }
  }
  for (const fs::path& document : documents()) {
    if (document.string().starts_with("docs/")) {
      EXPECT_EQ(reached.count(document), 1u) << document << ": no document links to it";
    }
  }
}

TEST(Documents, NameFilesThatExist) {
  static const std::regex path(R"(`((?:[a-z_]+/)+[\w.-]+\.(?:h|cpp|cu|py|json|md|csv|cmake))`)");
  static const std::set<std::string> folders = {"app",  "base",   "calibration", "cmake",     "docs",
                                                "exec", "models", "plan",        "plots",     "schemes",
                                                "sim",  "sweep",  "tests",       "topologies"};
  int files = 0;
  for (const fs::path& document : documents()) {
    for (const std::string& name : matches(text_of(document), path)) {
      if (folders.count(name.substr(0, name.find('/'))) == 0) continue;
      ++files;
      EXPECT_TRUE(fs::exists(kRoot / name)) << document << ": " << name;
    }
  }
  EXPECT_GT(files, 30);
}

/// Lines that end with a backslash are one with the next.
std::string joined(const std::string& text) { return std::regex_replace(text, std::regex("\\\\\n *"), ""); }

/// All commands of the documents: what stands between back quotes or in a block of code and begins with the
/// program.
std::vector<std::pair<fs::path, std::string>> commands() {
  static const std::regex command(R"((?:^|[^\w/.-])(?:\./|build/)?tandem ([a-z]+[^`|&#\n]*))");
  std::vector<std::pair<fs::path, std::string>> out;
  for (const fs::path& document : documents()) {
    const std::string text = std::regex_replace(joined(text_of(document)), std::regex(R"(\\\|)"), "|");
    std::vector<std::string> code = matches(text, std::regex("`([^`\n]+)`"));
    bool inside = false;
    for (const std::string& line : lines_of(text)) {
      if (line.starts_with("```")) inside = !inside;
      if (inside) code.push_back(line);
    }
    for (const std::string& each : code) {
      for (const std::string& found : matches(each, command)) {
        const auto dashes = found.find(" -- ");  // what launch starts is a command too
        out.emplace_back(document, found.substr(0, dashes));
        if (dashes != std::string::npos) out.emplace_back(document, found.substr(dashes + 4));
      }
    }
  }
  return out;
}

TEST(Documents, NameVerbsAndOptionsThatExist) {
  static const std::regex option(R"((?:^|\s)(--[a-z][a-z-]*))");
  std::map<std::string, std::string> help;
  int checked = 0;
  for (const auto& [document, command] : commands()) {
    const std::string verb = command.substr(0, command.find_first_of(" \n"));
    if (verb == "test" || verb == "bench") continue;  // of the launcher
    ASSERT_NE(verbs_registry().find(verb), nullptr) << document << ": tandem " << command;
    if (help[verb].empty()) help[verb] = tool({verb, "--help"}).out;
    for (const std::string& name : matches(command, option)) {
      ++checked;
      EXPECT_TRUE(name == "--help" || std::regex_search(help[verb], std::regex("\n  " + name + "[ \n]")))
          << document << ": tandem " << command << ": " << verb << " has no " << name;
    }
  }
  EXPECT_GT(checked, 60);
}

/// Cells of the table below a heading of the document.
std::vector<std::vector<std::string>> table(const std::string& document, const std::string& heading) {
  std::vector<std::vector<std::string>> out;
  const std::string text = text_of(document);
  const std::size_t begin = text.find(heading + "\n");
  EXPECT_NE(begin, std::string::npos) << document << ": " << heading;
  if (begin == std::string::npos) return out;
  for (std::string line : lines_of(text.substr(begin + heading.size()))) {
    if (!line.starts_with("|")) {
      if (!out.empty()) break;
      continue;
    }
    for (std::size_t at; (at = line.find("\\|")) != std::string::npos;) line.replace(at, 2, "\x01");
    std::vector<std::string> cells;
    std::istringstream in(line.substr(1));
    for (std::string cell; std::getline(in, cell, '|');) {
      std::replace(cell.begin(), cell.end(), '\x01', '|');
      const std::size_t first = cell.find_first_not_of(' '), last = cell.find_last_not_of(' ');
      cells.push_back(first == std::string::npos ? "" : cell.substr(first, last - first + 1));
    }
    out.push_back(std::move(cells));
  }
  if (out.size() >= 2) out.erase(out.begin(), out.begin() + 2);  // titles and rule
  return out;
}

/// Commands in the blocks of code between two headings of a document, or to its end.
std::vector<std::string> commands_between(const std::string& document, const std::string& from,
                                          const std::string& to) {
  const std::string text = joined(text_of(document));
  const std::size_t begin = text.find(from);
  EXPECT_NE(begin, std::string::npos) << document << ": " << from;
  std::vector<std::string> out;
  bool inside = false;
  for (const std::string& line : lines_of(text.substr(begin, text.find(to, begin) - begin))) {
    if (line.starts_with("```")) inside = !inside;
    if (inside && line.find("tandem ") != std::string::npos && line[0] != '#') out.push_back(line);
  }
  return out;
}

TEST(Documents, CommandsOfTheQuestionsRun) {
  const Scratch scratch;
  const auto fake = [&](const std::string& name, const std::string& body) {
    const std::string path = scratch.write(name, "#!/bin/sh\n" + body + "\n");
    fs::permissions(path, fs::perms::owner_all);
  };
  fake("tandem", "exec \"" TANDEM_BINARY "\" \"$@\"");
  fake("nvidia-smi", "cat '" + (kRoot / "tests/fuzz/corpus/topo_m/switch").string() + "'");
  scratch.write("config.json", text_of("tests/fuzz/corpus/hf_config/gpt2"));
  scratch.write(
      "llama3_70b.toml",
      "[model]\nname = \"llama3\"\nflavor = \"70B\"\n[training]\nlocal_batch_size = 2\n[parallelism]\n"
      "tensor_parallel_degree = 8\n[activation_checkpoint]\nmode = \"full\"\n");
  std::string trace = text_of("tests/fuzz/corpus/kineto/three_steps");
  scratch.write("step.0.et", text_of("tests/fuzz/corpus/chakra/scheduled"));
  for (const char* name : {"trace.json.gz", "rank0.json.gz"}) scratch.write(name, trace);
  trace.replace(trace.find("\"rank\": 0"), 9, "\"rank\": 1");
  scratch.write("rank1.json.gz", trace);
  scratch.write("nccl.log", text_of("tests/fuzz/corpus/nccl_tests/table.txt"));
  const std::string enter = "cd '" + scratch.file("") + "' && PATH=\"$PWD:$PATH\" && ";
  std::vector<std::string> commands = commands_between("README.md", "## Nine questions", "\n## How");
  EXPECT_EQ(commands.size(), 9u);
  const auto more = commands_between("docs/questions.md", "# Questions", "\n# ");
  EXPECT_GE(more.size(), 35u);
  const auto plans = commands_between("docs/plan.md", "# Plans", "\n# ");
  EXPECT_EQ(plans.size(), 1u);
  commands.insert(commands.end(), more.begin(), more.end());
  commands.insert(commands.end(), plans.begin(), plans.end());
  const auto sweeps = commands_between("docs/sweep.md", "# Sweeps", "\n# ");
  EXPECT_EQ(sweeps.size(), 10u);
  commands.insert(commands.end(), sweeps.begin(), sweeps.end());
  for (const std::string& command : commands) {
    const auto result = shell(enter + command);
    EXPECT_EQ(result.status, 0) << command << "\n" << result.err;
  }
}

TEST(Readme, FirstAnswerIsWhatTheProgramPrints) {
  const std::string text = text_of("README.md");
  const std::size_t begin = text.find("$ ./tandem predict");
  ASSERT_NE(begin, std::string::npos);
  const std::size_t line = text.find('\n', begin), end = text.find("\n```", begin);
  const auto result = shell("COLUMNS=80 \"$0\" " + text.substr(begin + 11, line - begin - 11) + " --quiet");
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(text.substr(line + 1, end - line), result.out);
}

/// Each row of a table that is copied from VALIDATION.md's first one.
TEST(Documents, FiguresOfAccuracyAreThoseOfTheValidation) {
  std::map<std::string, std::pair<std::string, std::string>> aims;
  for (const auto& cells : table("VALIDATION.md", "## Aims")) {
    ASSERT_GE(cells.size(), 4u);
    aims[cells[0]] = {cells[1], cells[3]};
  }
  ASSERT_GT(aims.size(), 6u);
  const std::vector<std::pair<std::string, std::string>> copies = {{"README.md", "## How accurate it is"},
                                                                   {"docs/accuracy.md", "## The figures"}};
  for (const auto& [document, heading] : copies) {
    const auto rows = table(document, heading);
    EXPECT_GE(rows.size(), 6u) << document;
    for (const auto& cells : rows) {
      ASSERT_EQ(cells.size(), 3u) << document << " " << cells[0];
      const auto found =
          aims.count(cells[0]) != 0 ? aims.find(cells[0]) : aims.find(cells[0] + ": mean error");
      ASSERT_NE(found, aims.end()) << document << ": " << cells[0] << " is not in VALIDATION.md";
      EXPECT_EQ(cells[1], found->second.first) << document << ": " << cells[0];
      EXPECT_EQ(cells[2], found->second.second) << document << ": " << cells[0];
    }
  }
}

/// A summary is read; what it summarises is on its pages.
TEST(Validation, IsASummaryOfItsPages) {
  EXPECT_LE(text_of("VALIDATION.md").size(), 12u * 1024);
  EXPECT_GE(written_documents().size(), 9u);
  for (const fs::path& page : written_documents()) {
    if (page == "VALIDATION.md") continue;
    EXPECT_THAT(text_of("VALIDATION.md"), HasSubstr("(" + page.string() + ")"));
  }
}

/// One clause each; the details are in git.
TEST(Changelog, StaysShort) {
  std::string release;
  int lines = 0;
  for (const std::string& line : lines_of(text_of("CHANGELOG.md") + "\n## \n")) {
    if (line.starts_with("## ")) {
      EXPECT_LE(lines, 40) << release;
      release = line;
      lines = 0;
    }
    ++lines;
    EXPECT_LE(line.size(), 130u) << line;
  }
}

TEST(Documents, NameEveryComponentThatTheyDescribe) {
  const std::string model = text_of("docs/formats/model.md"), system = text_of("docs/formats/system.md");
  for (const LayerType& type : layers_registry().all())
    EXPECT_TRUE(
        std::regex_search(model, std::regex("\\| [^|]*\\b" + std::string(type.name) + "\\b[^|]* \\|")))
        << "model.md lacks the layer " << type.name;
  const std::string schema = text_of("docs/formats/system.schema.json");
  for (const NetworkBlock& block : blocks_registry().all()) {
    EXPECT_THAT(system, HasSubstr("`" + std::string(block.name) + "`"));
    EXPECT_THAT(schema, HasSubstr('"' + std::string(block.name) + '"'));
  }
}

/// Paragraphs longer than this are lists that nobody wrote as one.
constexpr int kMostWords = 90;

TEST(Documents, KeepParagraphsShort) {
  for (const fs::path& document : documents()) {
    const std::string name = document.string();
    if (name.starts_with("tests/") || name.starts_with("schemes/")) continue;
    int words = 0;
    bool code = false;
    std::string first;
    for (std::string line : lines_of(text_of(document) + "\n\n")) {
      if (line.starts_with("```")) code = !code;
      const bool breaks =
          line.empty() || line.starts_with("```") || line.starts_with("|") || line.starts_with("#") ||
          line.starts_with("- ") || line.starts_with("$") ||
          (!line.empty() && std::isdigit(static_cast<unsigned char>(line[0])) != 0 && line.find(". ") < 4);
      if (breaks || code) {
        EXPECT_LE(words, kMostWords) << document << ": " << first;
        words = 0;
        first = line;
      }
      if (code || line.empty() || line.starts_with("|") || line.starts_with("#")) continue;
      if (words == 0) first = line;
      std::istringstream in(line);
      for (std::string word; in >> word;) ++words;
    }
  }
}

TEST(Readme, StaysShort) {
  const auto lines = lines_of(text_of("README.md"));
  EXPECT_LE(lines.size(), 150u);
  for (const std::string& line : lines) EXPECT_LE(line.size(), 200u) << line;
}

/// Findings and comparisons with other libraries need packages that tests do not install; they are at least
/// read by their interpreters.
TEST(Scripts, AreReadByTheirInterpreters) {
  int scripts = 0;
  for (const char* folder : {"findings", "tests/against"}) {
    for (const auto& entry : fs::directory_iterator(fs::path(TANDEM_ROOT) / folder)) {
      const std::string file = entry.path().string(), kind = entry.path().extension().string();
      if (kind != ".sh" && kind != ".py") continue;
      ++scripts;
      const ChildResult read = kind == ".sh"
                                   ? shell("bash -n '" + file + "'")
                                   : shell(
                                         "! command -v python3 >/dev/null || python3 -c 'import ast, sys; "
                                         "ast.parse(open(sys.argv[1]).read())' '" +
                                         file + "'");
      EXPECT_EQ(read.status, 0) << file << ": " << read.err;
    }
  }
  EXPECT_GE(scripts, 6);
}

}  // namespace
}  // namespace tandem::tests
