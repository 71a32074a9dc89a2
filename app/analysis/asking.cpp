// SPDX-License-Identifier: Apache-2.0
#include "app/analysis/asking.h"

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

}  // namespace

Hooks hooks(const Arguments& arguments) {
  return {open_data, measured_collectives, [arguments](std::string_view text) { note(arguments, text); }};
}

Arguments with_question(const Arguments& arguments, const std::vector<Option>& flags,
                        const FileRules& rules) {
  if (!arguments.has("question")) return arguments;
  return {with_question(arguments, flags, hooks(arguments).note, rules), arguments.words()};
}

Question read_question(const Arguments& arguments) { return read_question(arguments, hooks(arguments)); }

}  // namespace tandem::app
