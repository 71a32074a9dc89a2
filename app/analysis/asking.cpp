// SPDX-License-Identifier: Apache-2.0
#include "app/analysis/asking.h"

#include <fmt/format.h>

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

Question read_question(const Arguments& arguments) {
  if (!arguments.has("question")) return Question::read(arguments, hooks(arguments));
  const Json document = Json::load(arguments.text("question", ""));
  Values values = values_of(document);
  for (const Option& option : question_options()) {
    if (!arguments.has(option.name)) continue;
    std::vector<std::string> own = arguments.all(option.name);
    if (option.kind() != Option::Kind::given && own == std::vector<std::string>{""}) own.clear();  // removed
    if (option.name == "set") {  // in order: later ones win
      const std::vector<std::string> before = values.all("set");
      own.insert(own.begin(), before.begin(), before.end());
    }
    values.set(option.name, own);
    values.stands_at(option.name, {});
  }
  for (const char* option : {"model", "system"}) {
    if (!values.has(option)) document.fail(fmt::format("the key \"{}\" is missing", option));
  }
  return read_located(values, hooks(arguments));
}

}  // namespace tandem::app
