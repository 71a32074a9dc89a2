// SPDX-License-Identifier: Apache-2.0
#include "app/analysis/asking.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "app/console/output.h"
#include "calibration/fit/collective_profile.h"
#include "exec/data/data.h"
#include "exec/data/stored_images.h"
#include "exec/data/token_files.h"

namespace tandem::app {

namespace {

/// What run's --data would train on.
void open_data(const std::string& data, const Graph& graph, Loading& loading) {
  if (is_stored(data)) {
    loading.data = StoredImages::open(data).describe();
    return;
  }
  loading.decoded = true;
  if (is_tokens(data)) {
    TokenFiles::open(data, token_sequence(graph));
  } else if (data != "synthetic") {
    load_dataset(data, false);
  }
}

std::shared_ptr<const MeasuredCollectives> read_collectives(const std::string& file) {
  auto out = std::make_shared<MeasuredCollectives>();
  for (const CollectiveProfile& profile : read_collective_profiles(Json::load(file))) {
    out->all.push_back(profile.measured);
    if (out->source.find(profile.source) == std::string::npos)
      out->source += (out->source.empty() ? "" : ", ") + profile.source;
  }
  return out;
}

}  // namespace

Hooks hooks(const Arguments& arguments) {
  return {open_data, read_collectives, [arguments](std::string_view text) { note(arguments, text); }};
}

Option question_flag() {
  return {"question", "FILE",
          "ask the question in this file, or of a report (every report has its question). Options on the "
          "command line win, --set after the file's; an empty value removes an option of the file"};
}

namespace {

bool has_option(const std::vector<Option>& flags, std::string_view name) {
  return std::any_of(flags.begin(), flags.end(), [&](const Option& flag) { return flag.name == name; });
}

/// Those of the file's question, which the command line changes; of what a verb with these `flags` cannot do
/// without, one is there.
Values asked_values(const Arguments& arguments, const std::vector<Option>& flags, const FileRules& rules) {
  const Json document = Json::load(arguments.text("question", ""));
  Values values = values_of(document);
  for (const char* option : {"model", "system"}) {
    if (has_option(flags, option) && !values.has(option) && !arguments.has(option))
      document.fail(fmt::format("the key \"{}\" is missing", option));
  }
  if (rules.adapt != nullptr) rules.adapt(values);
  for (const Option& option : question_options()) {
    if (!arguments.has(option.name)) continue;
    std::vector<std::string> own = arguments.all(option.name);
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

Arguments with_question(const Arguments& arguments, const std::vector<Option>& flags,
                        const FileRules& rules) {
  if (!arguments.has("question")) return arguments;
  Values values = asked_values(arguments, flags, rules);
  std::vector<std::string> unused;
  for (const Option& option : question_options()) {
    if (!values.has(option.name) || has_option(flags, option.name)) continue;
    unused.emplace_back(option.name);
    values.set(option.name, {});
  }
  if (!unused.empty())
    note(arguments, fmt::format("of the question, {} {} not used here", fmt::join(unused, ", "),
                                unused.size() == 1 ? "is" : "are"));
  for (const Option& flag : flags) {
    if (!has_option(question_options(), flag.name)) values.set(flag.name, arguments.all(flag.name));
  }
  return {values, arguments.words()};
}

Question read_question(const Arguments& arguments) {
  if (!arguments.has("question")) return Question::read(arguments, hooks(arguments));
  const Values values = asked_values(arguments, question_options(), {});
  return read_located(values, hooks(arguments));
}

}  // namespace tandem::app
