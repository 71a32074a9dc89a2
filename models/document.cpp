// SPDX-License-Identifier: Apache-2.0
// The head of a model file: what it extends, its parameters, sample and published figures.
#include "models/document.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/data.h"

namespace tandem::models {

namespace {

int64_t parse_whole(const std::string& text, const std::string& key, const Place& place) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || at != end) {
    throw InputError(place,
                     fmt::format("\"{}={}\": expected a whole number", printable(key), printable(text)));
  }
  return value;
}

bool is_identifier(std::string_view name) {
  if (name.empty() || name.size() > 64 || (name[0] >= '0' && name[0] <= '9')) return false;
  for (const char c : name) {
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'))
      return false;
  }
  return name != "index";
}

Bytes byte_count(const Json* value, const Variables& variables) {
  if (value == nullptr) return {};
  if (!is_expression(*value)) return value->as_bytes();
  const int64_t n = whole_number(*value, variables);
  if (n < 0) value->fail(fmt::format("{} bytes: a byte count cannot be negative", n));
  return {n};
}

Json load_family(const Json& name) {
  const auto all = list_data("models/families");
  if (std::find(all.begin(), all.end(), name.as_text()) == all.end()) {
    name.fail(fmt::format("no family \"{}\" in models/families.{}", printable(name.as_text()),
                          did_you_mean(name.as_text(), all)));
  }
  return Json::load(fmt::format("{}/models/families/{}.json", data_root(), name.as_text()));
}

/// The child's members over the family's; "parameters" merge key by key.
Json merge(const Json& family, const Json& child) {
  child.only({"name", "extends", "summary", "source", "published", "sample", "parameters"});
  Json out = family;
  for (const auto& [key, value] : child.members()) {
    if (key == "extends") continue;
    if (key != "parameters" || family.find(key) == nullptr) {
      out.set(key, value);
      continue;
    }
    Json parameters = *family.find(key);
    for (const auto& [name, number] : value.members()) {
      if (parameters.find(name) == nullptr) {
        number.fail(fmt::format("the family has no parameter \"{}\".{}", printable(name),
                                did_you_mean(name, parameters.keys())));
      }
      parameters.set(name, number);
    }
    out.set(key, std::move(parameters));
  }
  return out;
}

}  // namespace

void set_parameters(Variables& out, const Json* parameters) {
  if (parameters == nullptr) return;
  if (parameters->members().size() > 256) parameters->fail("more than 256 parameters");
  for (const auto& [key, value] : parameters->members()) {
    if (!is_identifier(key)) {
      value.fail(
          fmt::format("\"{}\" cannot name a parameter: use up to 64 letters, digits and _ (not \"index\")",
                      printable(key)));
    }
    out.set(key, whole_number(value, out));
  }
}

Json resolve_document(const Json& document, const Settings& overrides, const Place& place) {
  Json out = document;
  if (const Json* family = document.find("extends")) {
    const Json base = load_family(*family);
    if (const Json* again = base.find("extends")) again->fail("a family cannot extend another");
    out = merge(base, document);
  }
  out.only({"name", "summary", "source", "published", "sample", "parameters", "inputs", "blocks", "layers"});
  if (overrides.empty()) return out;
  const Json* given = out.find("parameters");
  Json parameters = given != nullptr ? *given : Json::make_object(place);
  for (const auto& [key, text] : overrides) {
    if (parameters.find(key) == nullptr) {
      const auto names = parameters.keys();
      std::string valid;
      for (const std::string& n : names) valid += (valid.empty() ? "" : ", ") + n;
      throw InputError(place,
                       fmt::format("model {} has no parameter \"{}\".{} {}", printable(out.text("name", "")),
                                   printable(key), did_you_mean(key, names),
                                   valid.empty() ? "It has none" : "Valid: " + valid));
    }
    parameters.set(key, Json::make_integer(parse_whole(text, key, place), place));
  }
  out.set("parameters", std::move(parameters));
  return out;
}

Sample read_sample(const Json* json, const Variables& variables) {
  Sample out;
  if (json == nullptr) return out;
  json->only({"unit", "stored", "decoded", "decode"});
  out.unit = json->text("unit", out.unit);
  out.stored = byte_count(json->find("stored"), variables);
  out.decoded = byte_count(json->find("decoded"), variables);
  if (const Json* decode = json->find("decode")) out.decode_seconds = decode->as_time().seconds();
  return out;
}

std::optional<Published> read_published(const Json* json) {
  if (json == nullptr) return std::nullopt;
  json->only({"parameters", "forward", "tolerance", "source"});
  Published out;
  out.parameters = json->integer("parameters", 0, 0);
  if (const Json* forward = json->find("forward"))
    out.forward = parse_flops(forward->as_text(), forward->place());
  out.tolerance = json->real("tolerance", out.tolerance, 0, 1);
  out.source = json->text("source", "");
  return out;
}

}  // namespace tandem::models
