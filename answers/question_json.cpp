// SPDX-License-Identifier: Apache-2.0
// A question as a document.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "answers/question.h"
#include "base/data.h"
#include "base/text.h"

namespace tandem::answers {

namespace {

constexpr const char* kSchema = "tandem-question-1";

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

/// The values of a key, as a command line would hold them.
std::vector<std::string> words_of(const Json& value, const Option& option) {
  if (option.kind() == Option::Kind::given)
    return value.as_bool() ? std::vector<std::string>{""} : std::vector<std::string>{};
  const bool document = option.name == "model" || option.name == "system";
  if (document && value.is_object()) return {JsonWriter(value).dump()};
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

/// A number as a number, where it is one.
JsonWriter number_of(const std::string& text) {
  try {
    const Json value = Json::parse(text, "");
    if (value.is_integer() || value.kind() == Json::Kind::real) return JsonWriter(value);
  } catch (const InputError&) {
    // "1e6" and "+3" as they were written
  }
  return text;
}

JsonWriter json_of(const Option& option, const std::vector<std::string>& words) {
  if (option.kind() == Option::Kind::given) return true;
  if (option.repeatable) return words;
  const std::string& word = words.back();
  if (word.starts_with('{')) return JsonWriter(Json::parse(word, std::string(option.name)));
  return option.kind() == Option::Kind::number ? number_of(word) : JsonWriter(word);
}

const Json& question_in(const Json& document) {
  if (document.at("schema").as_text() != "tandem-reports-2") return document;
  const Json* found = nullptr;
  std::string text;
  for (const Json& report : document.at("reports").items()) {
    const Json* question = report.find("question");
    if (question == nullptr) report.fail("this report does not hold the question that it answers");
    const std::string own = JsonWriter(*question).dump();
    if (found != nullptr && own != text) report.fail("this report answers another question than the first");
    found = question;
    text = own;
  }
  if (found == nullptr) document.at("reports").fail("no report");
  return *found;
}

/// FNV-1a.
class Hash {
 public:
  void add(std::string_view text) {
    for (const unsigned char c : text) value_ = (value_ ^ c) * 0x100000001b3;
    value_ = (value_ ^ 0xff) * 0x100000001b3;  // no text holds it: parts do not run into each other
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325;
};

/// The file that an option names, where it names one by its path; else "".
std::string content_of(const std::string& text) {
  const std::string file = text.substr(0, text.find(':'));
  return file.ends_with(".json") ? read_file(file) : "";
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
  const Json& question = question_in(document);
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
    out.stands_at(option.name, value.place());
  }
  return out;
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
  try {
    return Question::read(values, hooks);
  } catch (const UsageError& error) {
    const std::string text = values.located(error.what());
    if (text == error.what()) throw;
    throw InputError(text);
  } catch (const InputError& error) {
    throw InputError(values.located(error.what()));
  }
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

uint64_t Question::hash() const {
  Hash hash;
  hash.add(to_json().dump());
  hash.add(JsonWriter(system.document({})).dump());
  for (const char* option : {"model", "scheme", "recipe", "profile", "collective-profile", "data"}) {
    for (const std::string& text : given.all(option)) hash.add(content_of(text));
  }
  return hash.value();
}

}  // namespace tandem::answers
