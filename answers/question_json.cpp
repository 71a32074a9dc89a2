// SPDX-License-Identifier: Apache-2.0
// A question as a document.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <optional>

#include "answers/question.h"
#include "base/data.h"
#include "base/hash.h"
#include "base/only_names.h"
#include "base/text.h"

namespace tandem::answers {

namespace {

constexpr const char* kSchema = "tandem-question-1";

bool holds_document(const Option& option) { return option.name == "model" || option.name == "system"; }

std::string word_of(const Json& value, const Option& option) {
  switch (value.kind()) {
    case Json::Kind::integer:
    case Json::Kind::real:
      return JsonWriter(value).dump();
    case Json::Kind::text:
      return value.as_text();
    default:
      value.fail(fmt::format("\"{}\" is {}", option.name,
                             option.kind() == Option::Kind::text ? "a text" : "a number"));
  }
}

/// The values of a key, as on a command line.
std::vector<std::string> words_of(const Json& value, const Option& option) {
  if (option.kind() == Option::Kind::given)
    return value.as_bool() ? std::vector<std::string>{""} : std::vector<std::string>{};
  if (holds_document(option) && value.is_object()) return {JsonWriter(value).dump()};
  if (!value.is_array()) return {word_of(value, option)};
  if (!option.repeatable && option.kind() != Option::Kind::numbers)
    value.fail(fmt::format("\"{}\" takes one value", option.name));
  std::vector<std::string> out;
  for (const Json& item : value.items()) out.push_back(word_of(item, option));
  if (out.empty() && !option.repeatable)
    value.fail(fmt::format("\"{}\" takes one value at least", option.name));
  if (option.repeatable) return out;
  return {fmt::format("{}", fmt::join(out, ","))};
}

/// A number as a number if it is one, however spelled: "064", "1e6".
JsonWriter number_of(const std::string& text) {
  constexpr double kMostExact = 1e15;
  const char* end = text.data() + text.size();
  int64_t whole = 0;
  if (const auto r = std::from_chars(text.data(), end, whole); r.ec == std::errc{} && r.ptr == end)
    return whole;
  double real = 0;
  const auto r = std::from_chars(text.data(), end, real);
  if (r.ec != std::errc{} || r.ptr != end || !std::isfinite(real)) return text;
  if (real == std::floor(real) && std::abs(real) < kMostExact) return static_cast<int64_t>(real);
  return real;
}

JsonWriter json_of(const Option& option, const std::vector<std::string>& words) {
  if (option.kind() == Option::Kind::given) return true;
  if (option.repeatable) return words;
  const std::string& word = words.back();
  if (holds_document(option) && is_document(word))
    return JsonWriter(Json::parse(word, std::string(option.name)));
  return option.kind() == Option::Kind::number ? number_of(word) : JsonWriter(word);
}

/// Contents of the file that a text names by path; "" if it names none.
std::string content_of(const std::string& text) {
  if (OnlyNames::here()) return "";
  std::error_code none;
  const auto file_of = [&](std::string_view part) -> std::string {
    const std::string file(part.substr(0, part.find(':')));
    const bool path = file.find('/') != std::string::npos || file.ends_with(".json");
    return path && std::filesystem::is_regular_file(file, none) ? read_file(file) : "";
  };
  std::string out = file_of(text);
  for (const std::string& word : split(text, ' ')) out += word == text ? "" : file_of(word);
  return out;
}

Values options_in(const Json& question) {
  const Json& schema = question.at("schema");
  if (schema.as_text() != kSchema)
    schema.fail(fmt::format("\"{}\" is no question; expected \"{}\", or reports", printable(schema.as_text()),
                            kSchema));
  Values out;
  for (const auto& [key, value] : question.members()) {
    if (key == "schema") continue;
    const Option& option = question_option(key, value.place());
    if (out.has(option.name)) value.fail(fmt::format("\"{}\" is there twice", option.name));
    out.set(option.name, words_of(value, option));
    std::vector<Place> items;
    for (std::size_t i = 0; value.is_array() && i < value.items().size(); ++i)
      items.push_back(value.items()[i].place());
    out.stands_at(option.name, value.place(), std::move(items));
    if (value.is_object()) out.holds(option.name, value);
  }
  return out;
}

}  // namespace

JsonWriter question_schema() {
  const auto of_kind = [](Option::Kind kind) -> JsonWriter {
    switch (kind) {
      case Option::Kind::given:
        return {{"type", "boolean"}};
      case Option::Kind::number:
        return {{"type", JsonWriter::array({"number", "string"})}};
      case Option::Kind::numbers:
        return {{"type", JsonWriter::array({"array", "number", "string"})},
                {"items", {{"type", JsonWriter::array({"number", "string"})}}}};
      case Option::Kind::text:
        break;
    }
    return {{"type", JsonWriter::array({"string", "number"})}};
  };
  JsonWriter properties = {{"schema", {{"const", kSchema}}}};
  for (const Option& option : question_options()) {
    JsonWriter one = of_kind(option.kind());
    if (option.name == "model" || option.name == "system") one["type"] = std::vector{"string", "object"};
    if (option.repeatable)
      one = {{"type", JsonWriter::array({"array", "string"})},
             {"items", {{"type", JsonWriter::array({"string", "number"})}}}};
    one["description"] = option.help;
    if (!option.fallback.empty()) one["default"] = json_of(option, {std::string(option.fallback)});
    properties[option.name] = std::move(one);
  }
  JsonWriter out = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                    {"title", "A question of Tandem: the options of `tandem predict` by their long names"},
                    {"type", "object"}};
  out["required"] = std::vector{"schema", "model", "system"};
  out["properties"] = std::move(properties);
  out["additionalProperties"] = false;
  return out;
}

Values values_of(const Json& document) {
  if (document.at("schema").as_text() != "tandem-reports-2") return options_in(document);
  std::optional<Values> out;
  for (const Json& report : document.at("reports").items()) {
    const Json* question = report.find("question");
    if (question == nullptr) report.fail("this report does not hold the question that it answers");
    Values own = options_in(*question);
    if (out && !(own == *out)) report.fail("this report answers another question than the first");
    if (!out) out = std::move(own);
  }
  if (!out) document.at("reports").fail("no report");
  return *std::move(out);
}

Question Question::from_json(const Json& document, const Hooks& hooks) {
  const Values values = values_of(document);
  try {
    return read_located(values, hooks);
  } catch (const UsageError& error) {
    std::string text = error.what();
    throw InputError(document.place(), text.starts_with("--") ? text.substr(2) : text);
  }
}

Question read_located(const Values& values, const Hooks& hooks) {
  return with_places(values, [&] { return Question::read(values, hooks); });
}

JsonWriter Question::to_json() const {
  JsonWriter out = {{"schema", kSchema}};
  for (const Option& option : question_options()) {
    if (option.name == "devices") {
      out["devices"] = devices;
      continue;
    }
    if (!given.has(option.name)) continue;
    const std::vector<std::string> words = given.all(option.name);
    if (option.repeatable || option.fallback.empty() || words.back() != option.fallback)
      out[option.name] = json_of(option, words);
  }
  return out;
}

void add_contents(Question& q) {
  for (const char* option :
       {"model", "scheme", "recipe", "profile", "collective-profile", "data", "with", "then"}) {
    for (const std::string& text : q.given.all(option)) {
      const std::pair<std::string, std::string> key(option, text);
      if (q.contents.count(key) != 0 || is_document(text)) continue;
      const std::string content = content_of(text);
      if (content.empty()) continue;
      Hash hash;
      hash.add(content);
      q.contents[key] = hash.value();
    }
  }
}

uint64_t Question::hash() const {
  Hash hash;
  hash.add(to_json().dump());
  hash.add(JsonWriter(system.document({})).dump());
  for (const auto& [file, content] : contents) hash.add(std::to_string(content));
  return hash.value();
}

}  // namespace tandem::answers
