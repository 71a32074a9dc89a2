// SPDX-License-Identifier: Apache-2.0
#include "answers/asking.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace tandem::answers {

Option question_flag() {
  return {"question", "FILE",
          "ask the question in this file, or of a report (every report has its question). Options on the "
          "command line win, --set after the file's; an empty value removes an option of the file"};
}

Option no_timeline_flag() {
  return {"no-timeline", "", "leave the timeline out of JSON, most of a report's size"};
}

Option reproducible_flag() {
  return {"reproducible", "", "leave out of JSON what differs between runs (wall time)"};
}

namespace {

bool has_option(const std::vector<Option>& flags, std::string_view name) {
  return std::any_of(flags.begin(), flags.end(), [&](const Option& flag) { return flag.name == name; });
}

/// Those of the file's question, which the command line changes; of what a verb with these `flags` cannot do
/// without, one is there.
Values asked_values(const Values& given, const std::vector<Option>& flags, const FileRules& rules) {
  const std::string text = given.text("question", "");
  const Json document = is_document(text) ? Json::parse(text, "question") : Json::load(text);
  Values values = values_of(document);
  for (const char* option : {"model", "system"}) {
    if (has_option(flags, option) && !values.has(option) && !given.has(option))
      document.fail(fmt::format("the key \"{}\" is missing", option));
  }
  if (rules.adapt != nullptr) rules.adapt(values);
  for (const Option& option : question_options()) {
    if (!given.has(option.name)) continue;
    std::vector<std::string> own = given.all(option.name);
    std::vector<Place> places;
    if (option.kind() != Option::Kind::given && own == std::vector<std::string>{""}) {
      own.clear();  // removed
    } else if (rules.adds(option.name, own)) {
      const std::vector<std::string> before = values.all(option.name);
      places = values.places(option.name);
      own.insert(own.begin(), before.begin(), before.end());
    }
    values.set(option.name, own);
    values.stands_at(option.name, {}, std::move(places));
  }
  return values;
}

}  // namespace

Values with_question(const Values& given, const std::vector<Option>& flags,
                     const std::function<void(std::string_view)>& note, const FileRules& rules) {
  if (!given.has("question")) return given;
  Values values = asked_values(given, flags, rules);
  std::vector<std::string> unused;
  for (const Option& option : question_options()) {
    if (!values.has(option.name) || has_option(flags, option.name)) continue;
    unused.emplace_back(option.name);
    values.set(option.name, {});
  }
  if (!unused.empty() && note)
    note(fmt::format("of the question, {} {} not used here", fmt::join(unused, ", "),
                     unused.size() == 1 ? "is" : "are"));
  for (const Option& flag : flags) {
    if (!has_option(question_options(), flag.name)) values.set(flag.name, given.all(flag.name));
  }
  return values;
}

Values predict_values(const Values& given) {
  return given.has("question") ? asked_values(given, question_options(), {}) : given;
}

Question read_question(const Values& given, const Hooks& hooks) {
  const Values values = predict_values(given);
  return given.has("question") ? read_located(values, hooks) : Question::read(values, hooks);
}

}  // namespace tandem::answers
