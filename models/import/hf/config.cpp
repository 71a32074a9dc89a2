// SPDX-License-Identifier: Apache-2.0
#include "models/import/hf/config.h"

#include <fmt/format.h>

#include <cctype>

#include "models/import/hf/layers.h"

namespace tandem::models {

namespace {

constexpr std::string_view kFrom = "from a config.json of ", kHeadless = ", which has no output layer",
                           kTextPart = ": its text part; what sees or hears is left out";

/// "meta-llama/Llama-2-7b-hf" -> "llama-2-7b-hf"; the type's name if there is none.
std::string name_of(const Json& config, const HfType& type) {
  const Json* given = config.find("_name_or_path");
  std::string text = given != nullptr && given->is_text() ? given->as_text() : "", out;
  text = text.substr(text.find_last_of('/') + 1);
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.' || c == '_')
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out.empty() ? type.name : out;
}

JsonWriter layers_document(HfLayers model, int sides) {
  JsonWriter out = JsonWriter::object();
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
  return out;
}

/// The part of the model that is read, if not all.
std::string apart(const HfType& type, bool part) {
  return fmt::format("{}{}", part ? kTextPart : "", type.headless ? kHeadless : "");
}

/// The config of the text part: "text_config", or in older files everything not of the other parts. The outer
/// config says whether the output layer is tied; with "text_ties" in the row the text config may, too.
Json text_part(const Json& config, const HfType& whole) {
  const Json* of = config.find("text_config");
  Json inner = of != nullptr ? *of : Json::make_object(config.place());
  if (!inner.is_object()) of->fail("\"text_config\" is no object");
  if (of == nullptr && config.find("hidden_size") == nullptr)
    config.fail(fmt::format("a \"{}\" without \"text_config\": its text part is not known", whole.name));
  for (const auto& [key, value] : config.members()) {
    if (of != nullptr || value.is_object()) continue;
    bool others = key == "model_type" || key == "architectures";
    for (const char* part : {"vision", "image", "video", "audio", "spatial"})
      others = others || key.starts_with(part);
    if (!others) inner.set(key, value);
  }
  const Json* own = of != nullptr ? of->find("tie_word_embeddings") : nullptr;
  if (own != nullptr && own->kind() == Json::Kind::boolean && own->as_bool() && whole.row->find("text_ties"))
    return inner;
  const Json* tied = config.find("tie_word_embeddings");
  if (tied == nullptr) tied = whole.library->at("fields").find("tie_word_embeddings");
  if (tied != nullptr && tied->kind() != Json::Kind::null) inner.set("tie_word_embeddings", *tied);
  return inner;
}

JsonWriter document_of(const HfFields& fields, const HfType& type) {
  for (const Json* row = type.row; row != nullptr; row = hf_like(*row)) {
    if (const Json* only = row->find("only")) fields.only(*only);
    if (const Json* names = row->find("ignore")) fields.ignore(*names);
    if (const Json* must = row->find("must")) fields.must(*must);
  }
  if (const Json* family = hf_of_row(type, "family")) {
    return hf_family(fields, type, family->as_text());
  }
  return layers_document(hf_layers(hf_decoder(fields, type)), 1);
}

}  // namespace

std::string without_infinity(std::string_view text) {
  std::string out;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') quoted = !quoted;
    const std::string_view rest = text.substr(i);
    bool replaced = false;
    for (const std::string_view token : {"-Infinity", "Infinity", "NaN"}) {
      if (quoted || !rest.starts_with(token)) continue;
      out += fmt::format("{:{}}", "null", token.size());
      i += token.size() - 1;
      replaced = true;
      break;
    }
    if (replaced) continue;
    out += c;
    if (quoted && c == '\\' && i + 1 < text.size()) out += text[++i];
  }
  return out;
}

bool is_hf_config(const Json& document) {
  return document.is_object() && document.find("layers") == nullptr && document.find("extends") == nullptr &&
         (document.find("architectures") != nullptr || document.find("model_type") != nullptr);
}

std::string hf_config_document(const Json& config) {
  const HfType whole = hf_type_of(config);
  const Json* text = hf_of_row(whole, "text");
  Json inner = config;
  HfType type = whole;
  if (const Json* vision = hf_of_row(whole, "vision")) {  // an image classifier on one side of the model
    const Json* of = config.find("vision_config");
    inner = of != nullptr && of->is_object() ? *of : Json::make_object(config.place());
    for (const char* key : {"id2label", "num_labels"}) {
      if (const Json* value = config.find(key)) inner.set(key, *value);
    }
    type = hf_type_named(vision->as_text(), config);
    type.reads = whole.reads;
  } else if (text != nullptr) {
    inner = text_part(config, whole);
    const Json* said = inner.find("model_type");
    const bool own = text->as_text() == "@model_type";
    if (own && said == nullptr) inner.fail("its \"model_type\" is missing");
    type = hf_type_named(own ? said->as_text() : text->as_text(), inner);
    type.headless = whole.reads.ends_with("Model");
  }
  const HfFields fields(inner, type);
  const bool part = hf_of_row(whole, "vision") != nullptr;
  const std::string name = name_of(config, part ? whole : type),
                    summary = fmt::format("{}{}{}", kFrom, whole.reads, apart(whole, text != nullptr));
  JsonWriter body = document_of(fields, type);
  fields.finish();
  JsonWriter out = {{"name", name}, {"summary", summary}};
  for (const char* key : {"extends", "sample", "parameters", "inputs", "blocks", "layers"}) {
    if (!body[key].is_null()) out[key] = std::move(body[key]);
  }
  return out.dump(2);
}

Json model_of_hf_config(const Json& config) {
  return Json::parse(hf_config_document(config), "model of " + *config.place().file);
}

std::string left_out_of_hf_config(const std::string& summary) {
  const bool part =
      summary.find(kTextPart) != std::string::npos || summary.find(kHeadless) != std::string::npos;
  return summary.starts_with(kFrom) && part ? summary.substr(kFrom.size()) : "";
}

}  // namespace tandem::models
