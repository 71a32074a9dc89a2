// SPDX-License-Identifier: Apache-2.0
// config.json of Hugging Face Transformers.
#include "models/import/hf/config.h"
#include "models/import/importer.h"

namespace tandem::models {

namespace {

bool looks_like_hf_config(std::string_view text) {
  if (text.find("\"architectures\"") == text.npos && text.find("\"model_type\"") == text.npos) return false;
  try {
    return is_hf_config(Json::parse(without_infinity(text), "config.json"));
  } catch (const InputError&) {
    return false;  // whoever reads it as a model file says where it is damaged
  }
}

Json read_hf_config(std::string_view text, const std::string& file) {
  return model_of_hf_config(Json::parse(without_infinity(text), file));
}

}  // namespace

void register_hf_config(Registry<ModelImporter>& registry) {
  registry.add({.name = "hf-config",
                .summary = "config.json of Hugging Face Transformers",
                .recognises = looks_like_hf_config,
                .read = read_hf_config});
}

}  // namespace tandem::models
