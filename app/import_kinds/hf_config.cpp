// SPDX-License-Identifier: Apache-2.0
// config.json of Hugging Face Transformers -> a model file.
#include "models/import/hf/config.h"

#include <fmt/format.h>

#include "app/console/output.h"
#include "app/import_kind.h"
#include "models/graph.h"

namespace tandem::app {

namespace {

bool like_hf_config(std::string_view text) {
  const std::string_view head = text.substr(0, 4096);
  return head.find('{') != std::string_view::npos &&
         (head.find("\"architectures\"") != std::string_view::npos ||
          head.find("\"model_type\"") != std::string_view::npos);
}

int import_hf_config(const Arguments& arguments, const std::vector<ImportFile>& files) {
  const ImportFile& file = only_file(files);
  const Json config = Json::parse(without_infinity(file.text), file.name);
  if (!is_hf_config(config))
    config.fail("no config of Transformers: it names no \"architectures\" and no \"model_type\"");
  std::string document = hf_config_document(config);
  const Graph graph = Graph::from_json(Json::parse(document, "model of " + file.name));
  note(arguments, fmt::format("{}: {} parameters", graph.name(), graph.parameter_elements()));
  if (const std::string part = left_out_of_hf_config(graph.summary()); !part.empty()) note(arguments, part);
  put_result(arguments, std::move(document));
  return 0;
}

}  // namespace

void register_hf_config(Registry<ImportKind>& registry) {
  registry.add(
      {.name = "hf-config",
       .summary = "config.json of Hugging Face Transformers: a model file (--model reads it directly, too)",
       .recognises = like_hf_config,
       .run = import_hf_config,
       .flags = {}});
}

}  // namespace tandem::app
