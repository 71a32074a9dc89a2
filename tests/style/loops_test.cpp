// SPDX-License-Identifier: Apache-2.0
// Loops over what a temporary owns: `for (const Op& op : compile(...).roles[0].ops)` reads freed memory,
// since the loop keeps only what its range ends with, and before C++23 no temporary on the way there.
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/style/code.h"

namespace tandem::tests {
namespace {

/// Functions by what they return, by name alone.
struct Returns {
  std::set<std::string> values = {"children"};  ///< pugixml's, a pair of handles
  std::set<std::string> references;

  void read(const std::string& code) {
    static const std::regex declared(
        R"((?:^|\n)[ ]*(?:\[\[nodiscard\]\] |virtual |static |inline |constexpr |friend )*(?:const )?([A-Za-z_][\w:]*(?:<[^\n;()]*>)?)( ?[&*] ?| )([A-Za-z_][\w:]*)\()");
    for (std::sregex_iterator at(code.begin(), code.end(), declared), end; at != end; ++at) {
      const std::string type = (*at)[1], mark = (*at)[2];
      static const std::set<std::string> others = {"return", "else", "new",      "delete",
                                                   "throw",  "case", "co_return"};
      if (others.count(type) > 0) continue;
      const std::string name = (*at)[3];
      (mark == " " ? values : references).insert(name.substr(name.rfind(':') + 1));
    }
  }
  /// Only such: an overload that returns a reference leaves it open.
  bool value(const std::string& name) const {
    if (references.count(name) > 0) return false;
    return values.count(name) > 0 || std::isupper(static_cast<unsigned char>(name[0])) != 0;
  }
};

/// Where the bracket closes that opens at `at`.
std::size_t closed(const std::string& s, std::size_t at) {
  int depth = 0;
  for (; at < s.size(); ++at) {
    if (s[at] == '(' || s[at] == '[' || s[at] == '{') ++depth;
    if ((s[at] == ')' || s[at] == ']' || s[at] == '}') && --depth == 0) return at;
  }
  return s.size();
}

/// The range of a loop whose head this is; "" of other loops.
std::string range_of(const std::string& head) {
  int depth = 0;
  for (std::size_t i = 1; i + 1 < head.size(); ++i) {
    const char c = head[i];
    if (c == '(' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == ']' || c == '}') --depth;
    if (c == ';' && depth == 0) return "";
    if (c == ':' && depth == 0 && head[i - 1] != ':' && head[i + 1] != ':') return head.substr(i + 1);
  }
  return "";
}

/// Does the range end in a reference into a temporary?
bool dangles(const std::string& range, const Returns& returns) {
  bool temporary = false, inside = false;
  std::string name;
  for (std::size_t i = 0; i < range.size(); ++i) {
    const char c = range[i];
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_') {
      name += c;
      continue;
    }
    if (c == '?' || c == '+') return false;  // more than a chain of members and calls
    if (c == '(' && !name.empty()) {
      const bool made = returns.value(name);
      inside = !made && (inside || temporary);
      temporary = temporary || made;
    } else if (c == '[') {
      inside = inside || temporary;
    }
    if (c == '(' || c == '[' || c == '{') i = closed(range, i);
    name.clear();
  }
  return temporary && inside;
}

std::vector<std::string> dangling_loops(const std::string& code, const Returns& returns) {
  std::vector<std::string> out;
  static const std::regex loop(R"(\bfor \()");
  for (std::sregex_iterator at(code.begin(), code.end(), loop), end; at != end; ++at) {
    const auto open = static_cast<std::size_t>(at->position() + at->length() - 1);
    const std::string range = range_of(code.substr(open + 1, closed(code, open) - open - 1));
    if (dangles(range, returns)) out.push_back(range);
  }
  return out;
}

TEST(Loops, OverMembersOfTemporariesAreFound) {
  Returns returns;
  returns.read(
      "\nProgram compile(const Job& job);\nconst Role& role(int i);\n  std::vector<Op> ops_of(int i);\n");
  const auto found = [&](const std::string& range) {
    return dangling_loops("for (const Op& op : " + range + ") use(op);", returns).size() == 1;
  };
  EXPECT_TRUE(found("compile(job).roles[0].ops"));
  EXPECT_TRUE(found("compile(job).roles.front().ops"));
  EXPECT_TRUE(found("Plan(job).program().ops"));
  EXPECT_FALSE(found("compile(job).ops")) << "its whole owner lives as long as the loop";
  EXPECT_FALSE(found("role(0).ops"));
  EXPECT_FALSE(found("role(0).parts[1].ops"));
  EXPECT_FALSE(found("program.roles[count(compile(job))].ops"));
  EXPECT_FALSE(found("compile(job).ops_of(0)"));
}

TEST(Loops, WalkNothingThatATemporaryOwned) {
  Returns returns;
  std::vector<std::string> codes;
  for (const Source& source : sources()) {
    codes.push_back(code_of(source));
    returns.read(codes.back());
  }
  for (std::size_t i = 0; i < codes.size(); ++i) {
    for (const std::string& range : dangling_loops(codes[i], returns))
      ADD_FAILURE() << sources()[i].path << ": a loop over " << range
                    << " refers into a temporary: give that a name before the loop";
  }
}

}  // namespace
}  // namespace tandem::tests
