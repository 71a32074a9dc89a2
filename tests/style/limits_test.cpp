// SPDX-License-Identifier: Apache-2.0
// How large functions and files may be. CONTRIBUTING.md names what to aim at; these are the limits.
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <string>
#include <vector>

#include "tests/style/code.h"

namespace tandem::tests {
namespace {

constexpr int kFunctionLines = 65, kFileLines = 600;

struct Block {
  std::string head;  ///< what stands before its brace
  int begin = 0, lines = 0;
};

/// The bodies of functions: blocks after a ")", outermost only.
std::vector<Block> functions_of(const std::string& code) {
  static const std::regex other("\\b(?:namespace|class|struct|union|enum|extern)\\b[^()]*$");
  static const std::regex function("\\)[^()=]*(?:->[^{}]*)?$");
  std::vector<Block> out, open;  // an open block that is no function has no head
  std::size_t begin = 0;
  int line = 1, inside = 0;
  for (std::size_t at = 0; at < code.size(); ++at) {
    if (code[at] == '\n') ++line;
    if (code[at] != '{' && code[at] != '}' && code[at] != ';') continue;
    const std::string head = code.substr(begin, at - begin);
    begin = at + 1;
    if (code[at] == '{') {
      const bool body = inside > 0 || (std::regex_search(head, function) && !std::regex_search(head, other));
      open.push_back({body ? head : "", line, 0});
      inside += body ? 1 : 0;
    } else if (code[at] == '}' && !open.empty()) {
      Block block = open.back();
      open.pop_back();
      if (block.head.empty() && inside == 0) continue;
      --inside;
      block.lines = line - block.begin - 1;
      if (inside == 0) out.push_back(block);
    }
  }
  return out;
}

TEST(Limits, FunctionsAreFound) {
  const std::string code =
      code_of({"x.cpp",
               "x",
               {"namespace a {", "struct B {", "  int c() const {", "    if (d) {", "      e();", "    }",
                "    return 1;", "  }", "};", "int f(int g) { return g; }", "B::B() : h_(1), i_(2) {",
                "  j();", "}", "const int k[] = {", "1, 2};", "}"}});
  std::vector<int> lines;
  for (const Block& block : functions_of(code)) lines.push_back(block.lines);
  EXPECT_EQ(lines, (std::vector<int>{4, -1, 1}));
}

TEST(Limits, FunctionsStayShort) {
  std::size_t count = 0;
  for (const Source& source : sources()) {
    if (source.folder == "tests") continue;  // where some are lists of cases
    for (const Block& block : functions_of(code_of(source))) {
      ++count;
      EXPECT_LE(block.lines, kFunctionLines) << source.path << ":" << block.begin;
    }
  }
  EXPECT_GT(count, 2500U);
}

TEST(Limits, FilesStayShort) {
  for (const Source& source : sources())
    EXPECT_LE(source.lines.size(), static_cast<std::size_t>(kFileLines)) << source.path;
}

}  // namespace
}  // namespace tandem::tests
