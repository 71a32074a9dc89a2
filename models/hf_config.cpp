// SPDX-License-Identifier: Apache-2.0
#include "models/hf_config.h"

#include <fmt/format.h>

#include <cctype>

#include "models/hf_layers.h"

namespace tandem::models {

namespace {

/// "meta-llama/Llama-2-7b-hf" -> "llama-2-7b-hf"; without a name the architecture's.
std::string name_of(const Json& config, const HfArchitecture& architecture) {
  std::string out;
  std::string text = config.text("_name_or_path", "");
  text = text.substr(text.find_last_of('/') + 1);
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.' || c == '_')
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out.empty() ? std::string(architecture.type) : out;
}

}  // namespace

bool is_hf_config(const Json& document) {
  return document.is_object() && document.find("layers") == nullptr && document.find("extends") == nullptr &&
         (document.find("architectures") != nullptr || document.find("model_type") != nullptr);
}

std::string hf_config_document(const Json& config) {
  const HfArchitecture& architecture = hf_architecture_of(config);
  const HfConfig read(config);
  const std::string name = name_of(config, architecture),
                    summary = fmt::format("from a config.json of {}", architecture.name);
  if (architecture.family != nullptr) {
    HfFamily family = architecture.family(read);
    JsonWriter out = {{"name", name}, {"extends", family.name}, {"summary", summary}};
    out["parameters"] = std::move(family.parameters);
    return out.dump(2);
  }
  HfLayers model = architecture.decoder != nullptr ? hf_layers(architecture.decoder(read))
                                                   : hf_layers(architecture.encoder_decoder(read));
  JsonWriter out = {{"name", name}, {"summary", summary}};
  const int sides = architecture.decoder != nullptr ? 1 : 2;
  out["sample"] = {{"unit", "sequences"},
                   {"stored", fmt::format("={}*sequence", 2 * sides)},
                   {"decoded", fmt::format("={}*sequence", 8 * sides)},
                   {"decode", "0s"}};
  out["parameters"] = std::move(model.parameters);
  JsonWriter tokens = JsonWriter::array();
  tokens.push_back(std::move(model.tokens));
  out["inputs"] = JsonWriter::object();
  out["inputs"]["tokens"] = std::move(tokens);
  out["blocks"] = std::move(model.blocks);
  out["layers"] = std::move(model.layers);
  return out.dump(2);
}

Json model_of_hf_config(const Json& config) {
  return Json::parse(hf_config_document(config), "model of " + *config.place().file);
}

}  // namespace tandem::models
