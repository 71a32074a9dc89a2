// SPDX-License-Identifier: Apache-2.0
#include "app/serve/site_lists.h"

#include "answers/question.h"
#include "base/json_writer.h"
#include "models/optimizer.h"
#include "schemes/setup/scheme.h"
#include "topologies/system.h"

namespace tandem::app {

namespace {

template <typename Entries>
JsonWriter summaries_json(const Entries& entries) {
  auto out = JsonWriter::array();
  for (const auto& e : entries) out.push_back({{"name", e.name}, {"summary", e.summary}});
  return out;
}

JsonWriter options_json() {
  auto out = JsonWriter::array();
  for (const Option& option : question_options())
    out.push_back({{"name", option.name},
                   {"value", option.value},
                   {"help", option.help},
                   {"repeatable", option.repeatable},
                   {"fallback", option.fallback}});
  return out;
}

JsonWriter schemes_json() {
  auto out = JsonWriter::array();
  for (const auto& entry : list_schemes()) {
    JsonWriter scheme = {{"name", entry.name}, {"summary", entry.summary}};
    scheme["keys"] = JsonWriter::array();
    for (const OptionSpec& spec : resolve_scheme(entry.name, {}).scheme->options)
      scheme["keys"].push_back({{"name", spec.name}, {"fallback", spec.fallback}, {"help", spec.help}});
    out.push_back(std::move(scheme));
  }
  return out;
}

JsonWriter precisions_json() {
  auto out = JsonWriter::array();
  for (int p = 0; p < kPrecisions; ++p) out.push_back(name(static_cast<Precision>(p)));
  return out;
}

}  // namespace

const std::string& options_text() {
  static const std::string text = JsonWriter{{"schema", "tandem-options-1"},
                                             {"options", options_json()},
                                             {"models", summaries_json(list_models())},
                                             {"systems", summaries_json(list_systems())},
                                             {"devices", summaries_json(list_devices())},
                                             {"schemes", schemes_json()},
                                             {"precisions", precisions_json()},
                                             {"optimizers", summaries_json(optimizers())}}
                                      .dump() +
                                  "\n";
  return text;
}

}  // namespace tandem::app
