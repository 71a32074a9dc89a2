// SPDX-License-Identifier: Apache-2.0
// Two types of one name in one namespace may meet in one program, where the linker takes functions of either
// for both (the one-definition rule): no compiler says so. Names in unnamed namespaces are their file's own.
#include <gtest/gtest.h>

#include <cctype>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/style/code.h"

namespace tandem::tests {
namespace {

/// "tandem::cuda::Session" for every type defined in a named namespace.
std::set<std::string> types_of(const std::string& code) {
  static const std::regex space("(?:inline\\s+)?namespace\\s*([\\w:]*)\\s*$"),
      type(
          "(?:^|[\\s>])(?:class|struct|union|enum|enum\\s+class)\\s+(?:alignas\\([^)]*\\)\\s*)?([\\w:]+)\\s*"
          "(?:final\\s*)?(?::[^:][^;{}]*)?$");
  std::set<std::string> out;
  std::vector<std::string> open;  // of each brace: its namespace, or "" inside anything else
  std::size_t begin = 0;
  for (std::size_t at = 0; at < code.size(); ++at) {
    if (code[at] != '{' && code[at] != '}' && code[at] != ';') continue;
    const std::string head = code.substr(begin, at - begin);
    begin = at + 1;
    if (code[at] == '}' && !open.empty()) open.pop_back();
    if (code[at] != '{') continue;
    std::smatch match;
    const bool inside = !open.empty() && open.back().empty();
    if (!inside && std::regex_search(head, match, space)) {
      const std::string outer = open.empty() ? "" : open.back() + "::", own = match[1];
      open.push_back(outer + (own.empty() ? "?" : own));
      continue;
    }
    if (!inside && !open.empty() && open.back().find('?') == std::string::npos &&
        std::regex_search(head, match, type) && head.find('(') == std::string::npos)
      out.insert(open.back() + "::" + match.str(1));
    open.emplace_back();
  }
  return out;
}

TEST(Types, ReaderSeesNamespacesAndSkipsText) {
  const std::string code = code_of(
      {"x.cpp",
       "x",
       {"#define struct Never {", "namespace a {", "struct A : B<int> {", "  struct Inner { int x; };", "};",
        "// struct Comment {};", "const char* t = \"struct Text {\"; char c = '{'; int n = 10'000;",
        "namespace b { enum class E : int { one }; }", "namespace { struct Own {}; }", "struct Later;",
        "struct Result f() { return {}; }", "template <class T> class C final {};", "}"}});
  EXPECT_EQ(types_of(code), (std::set<std::string>{"a::A", "a::b::E", "a::C"}));
}

TEST(Types, NoTwoShareANameInANamespace) {
  std::map<std::string, std::string> defined;  // where
  for (const Source& source : sources()) {
    for (const std::string& type : types_of(code_of(source))) {
      const auto [at, fresh] = defined.emplace(type, source.path);
      EXPECT_TRUE(fresh) << type << " is defined in " << at->second << " and in " << source.path
                         << ": rename one, or give it a namespace";
    }
  }
  EXPECT_GT(defined.size(), 200U);
}

}  // namespace
}  // namespace tandem::tests
