// SPDX-License-Identifier: Apache-2.0
#include "answers/shell_line.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "answers/question.h"

namespace tandem::answers {

std::string predict_line(const Values& question) {
  std::vector<std::string> words = {"tandem", "predict"};
  for (const Option& option : question_options()) {
    for (const std::string& value : question.all(option.name)) {
      if (value == option.fallback || (option.value.empty() && value == "false")) continue;
      if (is_document(value)) return "";
      words.push_back("--" + std::string(option.name));
      if (!option.value.empty()) words.push_back(value);
    }
  }
  return shell_line(words);
}

std::string shell_line(const std::vector<std::string>& words) {
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("-_=:,./@%+").find(c) != std::string_view::npos;
  };
  std::string out;
  for (const std::string& word : words) {
    out += out.empty() ? "" : " ";
    if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) {
      out += word;
      continue;
    }
    out += '\'';
    for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    out += '\'';
  }
  return out;
}

}  // namespace tandem::answers
