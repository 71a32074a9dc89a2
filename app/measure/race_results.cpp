// SPDX-License-Identifier: Apache-2.0
#include "app/measure/race_results.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/json.h"

namespace tandem::app {

RaceResults::RaceResults(std::string file, const JsonWriter& race) : file_(std::move(file)) {
  if (file_.empty()) return;
  const std::string head = JsonWriter{{"race", race}}.dump();
  std::error_code none;
  if (!std::filesystem::exists(file_, none)) {
    append(head);
    return;
  }
  std::string text = read_file(file_, int64_t{1} << 30);
  text.resize(text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1);
  std::size_t at = 0;
  for (int line = 1; at < text.size(); ++line) {
    const std::size_t end = text.find('\n', at);
    const std::string one = text.substr(at, end - at);
    at = end + 1;
    if (line == 1) {
      if (one != head)
        throw InputError(
            fmt::format("{}:1: results of another race: {}; this one is {}", file_, printable(one), head));
      continue;
    }
    const Json result = Json::parse(one, fmt::format("{}:{}", file_, line));
    result.only({"what", "values"});
    Values values;
    for (const Json& v : result.at("values").items()) values.push_back(v.as_real());
    known_[result.at("what").as_text()] = values;
  }
  write_file(file_, text.empty() ? head + "\n" : text);
}

std::optional<RaceResults::Values> RaceResults::get(const std::string& what,
                                                    const std::function<std::optional<Values>()>& measure) {
  const auto found = known_.find(what);
  if (found != known_.end()) return found->second;
  std::optional<Values> values = measure();
  if (!values) return {};
  known_[what] = *values;
  if (!file_.empty()) append(JsonWriter{{"what", what}, {"values", *values}}.dump());
  return values;
}

void RaceResults::append(const std::string& line) const {
  std::ofstream out(file_, std::ios::app);
  out << line << '\n' << std::flush;
  if (!out) throw InputError(fmt::format("{}: cannot be written", file_));
}

}  // namespace tandem::app
