// SPDX-License-Identifier: Apache-2.0
// How much one type may hold and do. A type that outgrows this has several jobs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/style/code.h"

namespace tandem::tests {
namespace {

constexpr std::size_t kFields = 20, kMethods = 40, kFiles = 3;

struct Size {
  std::size_t fields = 0, methods = 0, files = 0;
  bool small() const { return fields <= kFields && methods <= kMethods && files <= kFiles; }
};

/// Types that are larger today. Each is struck off once it is small; none may grow.
const std::map<std::string, Size> kLarge = {
    {"AttentionShape", {22, 14, 0}}, {"ConvShape", {11, 6, 8}},    {"Costs", {8, 45, 1}},
    {"Decoder", {93, 0, 0}},         {"Execution", {21, 2, 0}},    {"Experts", {38, 19, 0}},
    {"FairShare", {33, 45, 2}},      {"FoldedRole", {30, 23, 0}},  {"Hybrid", {11, 45, 0}},
    {"LayerCalls", {0, 41, 0}},      {"LayerEmitter", {8, 50, 1}}, {"Library", {28, 1, 1}},
    {"MemoryRow", {22, 2, 0}},       {"Pattern", {24, 2, 1}},      {"Question", {33, 9, 4}},
    {"Request", {21, 0, 0}},         {"RoleSweep", {26, 27, 0}},   {"Session", {12, 45, 1}},
    {"System", {1, 45, 5}},          {"SystemReader", {7, 35, 4}}, {"TrainingProgress", {21, 0, 0}},
    {"ValidationRow", {37, 2, 0}},   {"Walk", {31, 65, 2}},        {"Worker::Handlers", {24, 2, 0}}};

/// Without what stands in angle, round or curly brackets; a round pair stays as "()".
std::string bare(const std::string& statement) {
  std::string out;
  int angles = 0, rounds = 0, curlies = 0;
  for (std::size_t i = 0; i < statement.size(); ++i) {
    const char c = statement[i];
    const bool arrow = c == '>' && i > 0 && statement[i - 1] == '-';
    if (c == '(' && angles + curlies == 0 && rounds++ == 0) out += '(';
    if (c == ')' && angles + curlies == 0 && --rounds == 0) out += ')';
    if (rounds > 0) continue;
    if (c == '{') ++curlies;
    if (c == '}') --curlies;
    if (c == '<' && curlies == 0) ++angles;
    if (c == '>' && curlies == 0 && !arrow && angles > 0) --angles;
    const bool bracket = c == '(' || c == ')' || c == '{' || c == '}' || c == '<' || (c == '>' && !arrow);
    if (!bracket && angles + curlies == 0) out += c;
  }
  return out;
}

/// Adds what a statement of a type's body declares.
void count(const std::string& statement, Size& size) {
  static const std::regex access("\\b(?:public|private|protected)\\s*:"),
      other("^\\s*(?:using|friend|typedef|static_assert|enum|class|struct|union|template\\s+struct)\\b");
  static const std::regex symbol("operator\\s*[^\\w\\s(]+");
  const std::string text = std::regex_replace(std::regex_replace(statement, access, ""), symbol, "operator ");
  if (text.find_first_not_of(" \t\n") == std::string::npos || std::regex_search(text, other)) return;
  const std::string plain = bare(text);
  const std::size_t round = plain.find('('), equals = plain.find('=');
  if (round < equals) {
    ++size.methods;
  } else if (plain.find("static ") == std::string::npos) {
    size.fields += 1 + static_cast<std::size_t>(std::count(plain.begin(), plain.end(), ','));
  }
}

/// The body that begins behind the brace at `begin`, statement by statement; where it ends.
std::size_t read_body(const std::string& code, std::size_t begin, Size& size) {
  std::string statement;
  int depth = 0;
  for (std::size_t at = begin; at < code.size(); ++at) {
    const char c = code[at];
    if (c == '}' && depth-- == 0) return at;
    if (c == '{') ++depth;
    statement += c;
    if (depth > 0) continue;
    const std::string plain = c == '}' ? bare(statement) : "";
    const bool function = plain.find(')') < plain.find('=');
    if (c != ';' && !function) continue;
    if (c == ';') statement.pop_back();
    count(statement, size);
    statement.clear();
  }
  return code.size();
}

/// "EventEngine" and what it holds, for every type of a file.
std::vector<std::pair<std::string, Size>> types_in(const std::string& code) {
  static const std::regex type(
      "(?:^|[\\s>;{}])(?:class|struct)\\s+(?:alignas\\([^)]*\\)\\s*)?([\\w:]+)\\s*(?:final\\s*)?"
      "(?::[^:;{}()][^;{}()]*)?\\{");
  std::vector<std::pair<std::string, Size>> out;
  for (std::sregex_iterator it(code.begin(), code.end(), type), end; it != end; ++it) {
    Size size;
    read_body(code, static_cast<std::size_t>(it->position() + it->length()), size);
    out.emplace_back((*it)[1], size);
  }
  return out;
}

TEST(TypeLimits, FieldsAndMethodsAreCounted) {
  const auto found = types_in(code_of(
      {"x.cpp",
       "x",
       {"class A : public B {", " public:", "  explicit A(int x) : x_(x), y_{1} {}", "  int f() const;",
        "  struct Inner { int i; };", "  std::function<void(int)> call;", "  int a = 0, b = 0;",
        "  std::map<int, int> c = {};", "  bool operator==(const A&) const = default;",
        " private:", "  using T = int;", "  static constexpr int k = 1;",
        "  double Speeds::*speed = nullptr;", "  template <typename F> void each(F f) { f(); }", "};"}}));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].first, "A");
  EXPECT_EQ(found[0].second.fields, 5u);
  EXPECT_EQ(found[0].second.methods, 4u);
  EXPECT_EQ(found[1].second.fields, 1u);
}

TEST(TypeLimits, TypesStaySmallOrShrink) {
  static const std::regex member("(?:^|[\\s&*])(\\w+)::~?\\w+\\s*\\([^;]*$");
  std::map<std::string, Size>
      sizes;  ///< of the largest of a name: types of one name are told apart elsewhere
  std::map<std::string, std::set<std::string>> files;
  for (const Source& source : sources()) {
    if (source.folder == "tests") continue;
    const std::string code = code_of(source);
    for (const auto& [name, size] : types_in(code)) {
      Size& largest = sizes[name];
      largest.fields = std::max(largest.fields, size.fields);
      largest.methods = std::max(largest.methods, size.methods);
    }
    if (source.header()) continue;
    std::size_t begin = 0;
    for (std::size_t at = 0; at < code.size(); ++at) {
      if (code[at] != '{' && code[at] != '}' && code[at] != ';') continue;
      const std::string head = code.substr(begin, at - begin);
      begin = at + 1;
      std::smatch match;
      if (code[at] != '{' || !std::regex_search(head, match, member)) continue;
      const std::size_t round = head.find('(');  // no call inside a condition
      if (round >= static_cast<std::size_t>(match.position())) files[match[1]].insert(source.path);
    }
  }
  EXPECT_GT(sizes.size(), 500u);
  for (auto& [name, size] : sizes) {
    size.files = files[name].size();
    const auto known = kLarge.find(name);
    if (known == kLarge.end()) {
      EXPECT_TRUE(size.small()) << fmt::format("{{\"{}\", {{{}, {}, {}}}}},", name, size.fields, size.methods,
                                               size.files);
      continue;
    }
    EXPECT_FALSE(size.small()) << name << " is small now: strike it off";
    EXPECT_LE(size.fields, known->second.fields) << name;
    EXPECT_LE(size.methods, known->second.methods) << name;
    EXPECT_LE(size.files, known->second.files) << name;
  }
}

}  // namespace
}  // namespace tandem::tests
