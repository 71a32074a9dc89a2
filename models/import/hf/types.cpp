// SPDX-License-Identifier: Apache-2.0
// The tables of types: models/import/hf/types/*.json says how each is read, models/import/hf/classes.json
// what the library has.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "base/data.h"
#include "models/import/hf/fields.h"

namespace tandem::models {

namespace {

/// All rows, of all files.
const std::map<std::string, Json, std::less<>>& rows() {
  static const auto all = [] {
    std::map<std::string, Json, std::less<>> out;
    for (const std::string& file : list_data("models/import/hf/types")) {
      const Json table = Json::load(fmt::format("{}/models/import/hf/types/{}.json", data_root(), file));
      for (const auto& [name, row] : table.members()) out.emplace(name, row);
    }
    return out;
  }();
  return all;
}

const Json& classes() {
  static const Json all = Json::load(data_root() + "/models/import/hf/classes.json");
  return all;
}

const Json* library_of(const std::string& type, const Json& row) {
  if (const Json* own = classes().find(type)) return own;
  const Json* other = row.find("fields_of");
  return classes().find(other != nullptr ? other->as_text() : row.text("like", ""));
}

/// "Bert" of "BertForMaskedLM".
std::string stem_of(const std::string& name) {
  std::size_t end = name.size();
  for (const char* part : {"For", "LMHead", "MTModel", "Decoder", "WithLM"})
    end = std::min(end, name.find(part));
  return name.substr(0, end);
}

/// Classes that a row reads, the usual one first.
std::vector<std::string> read_by(const std::string& type, const Json& row) {
  std::vector<std::string> out;
  if (const Json* own = row.find("classes")) {
    for (const Json& name : own->items()) out.push_back(name.as_text());
  }
  const Json* library = classes().find(type);
  const bool usual = library != nullptr && row.find("classes") == nullptr;
  for (std::size_t i = 0; usual && i < library->at("classes").items().size(); ++i) {
    out.push_back(library->at("classes").items()[i].as_text());
    if (row.find("text") == nullptr) break;  // of a model that also sees or hears: all
  }
  // Tasks have their own classes: "BertForTokenClassification".
  for (const Json* of = &row; of != nullptr && !out.empty(); of = hf_like(*of)) {
    const Json* tasks = of->find("tasks");
    if (tasks == nullptr) continue;
    const std::string stem = stem_of(out.front());
    for (const auto& [ending, task] : tasks->members()) {
      if (ending != "Model" && std::find(out.begin(), out.end(), stem + ending) == out.end())
        out.push_back(stem + ending);
    }
  }
  return out;
}

/// The class "LlamaModel" of a type with "LlamaForCausalLM".
std::string bare_of(const std::string& type) {
  const Json* library = classes().find(type);
  if (library == nullptr) return "";
  const auto& all = library->at("classes").items();
  const std::string& last = all.back().as_text();
  return all.size() > 1 && last.ends_with("Model") && !last.ends_with("LMHeadModel") ? last : "";
}

std::optional<HfType> as_read(const std::string& type, const std::string& name) {
  const auto row = rows().find(type);
  if (row == rows().end()) return std::nullopt;
  const auto names = read_by(type, row->second);
  if (names.empty() && row->second.find("refused") == nullptr)
    return std::nullopt;  // other rows only refer to it
  const Json* library = library_of(type, row->second);
  const bool listed = std::find(names.begin(), names.end(), name) != names.end();
  if (!listed && !name.empty() && name != bare_of(type)) return std::nullopt;
  const std::string reads = !name.empty() ? name : names.empty() ? type : names[0];
  const bool alone =
      row->second.find("classes") == nullptr && reads.ends_with("TextModel");  // part of a larger model
  return HfType{type, reads, &row->second, library, alone || (!listed && !name.empty())};
}

/// "gpt2" of "GPT2LMHeadModel": for classes that several types share.
bool named_after(const std::string& name, const std::string& type) {
  std::size_t at = 0;
  for (const char c : type) {
    if (c == '_' || c == '-') continue;
    if (at >= name.size() || std::tolower(static_cast<unsigned char>(name[at])) != c) return false;
    ++at;
  }
  return true;
}

/// Edit distance (Levenshtein 1966).
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t corner = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t next =
          std::min({row[j] + 1, row[j - 1] + 1, corner + (a[i - 1] == b[j - 1] ? 0 : 1)});
      corner = std::exchange(row[j], next);
    }
  }
  return row[b.size()];
}

/// A name that is this one misspelled; other models do not count: the part before "ForCausalLM" must match
/// exactly.
std::string spelled_otherwise(const std::string& wrong, const std::vector<std::string>& names) {
  const auto plain = [](const std::string& text) {
    std::string out;
    for (const char c : text) {
      if (std::isalnum(static_cast<unsigned char>(c)) != 0)
        out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    return out;
  };
  const std::string a = plain(wrong);
  for (const std::string& name : names) {
    const std::string b = plain(name);
    const std::size_t most = a.size() > 8 ? 2 : 1;
    if (b.empty() || a.empty()) continue;
    const std::size_t stem = std::min(a.rfind("for"), a.size()), other = std::min(b.rfind("for"), b.size());
    if (distance(a, b) <= most && a.substr(0, stem) == b.substr(0, other)) return name;
  }
  return "";
}

/// Up to six types whose names begin with the same letters: "gemma" of "gemma5_text".
std::vector<std::string> of_like_name(std::string name, const std::vector<std::string>& types) {
  std::size_t letters = 0;
  while (letters < name.size() && std::isalpha(static_cast<unsigned char>(name[letters])) != 0) {
    name[letters] = static_cast<char>(std::tolower(static_cast<unsigned char>(name[letters])));
    ++letters;
  }
  std::vector<std::string> out;
  for (const std::string& known : types) {
    if (letters >= 3 && out.size() < 6 && known.starts_with(name.substr(0, letters))) out.push_back(known);
  }
  return out;
}

[[noreturn]] void refuse(const Json& where, const std::string& type, const std::string& name) {
  const auto row = rows().find(type);
  constexpr std::array<const char*, 6> kTasks{"SequenceClassification", "TokenClassification",
                                              "QuestionAnswering",      "MultipleChoice",
                                              "NextSentencePrediction", "PreTraining"};
  for (const char* task : kTasks) {
    if (row != rows().end() && name.find(task) != std::string::npos)
      where.fail(
          fmt::format("\"{}\": the type \"{}\" is understood, but not with this output layer; understood: {}",
                      printable(name), type, fmt::join(read_by(type, row->second), ", ")));
  }
  std::vector<std::string> names, types;
  for (const auto& [known, of] : rows()) {
    const auto read = read_by(known, of);
    if (known.empty() || read.empty() || of.find("refused") != nullptr) continue;
    types.push_back(known);
    names.insert(names.end(), read.begin(), read.end());
  }
  const std::string near = spelled_otherwise(name, name == type ? types : names);
  const auto like = of_like_name(type.empty() ? stem_of(name) : type, types);
  std::string hint = fmt::format("{} types are: models/import/hf/types", types.size());
  if (!like.empty()) hint = fmt::format("Similar names: {}", fmt::join(like, ", "));
  if (!near.empty()) hint = fmt::format("Did you mean {}?", near);
  where.fail(fmt::format("architecture \"{}\" is not understood. {}", printable(name), hint));
}

HfType checked(HfType type, const Json& where) {
  if (const Json* why = type.row->find("refused"))
    where.fail(fmt::format("\"{}\" is not understood: {}", printable(type.reads), why->as_text()));
  if (type.library == nullptr)
    where.fail(fmt::format("\"{}\" has no fields in models/import/hf/classes.json", type.name));
  return type;
}

}  // namespace

HfType hf_type_of(const Json& config) {
  const Json* named = config.find("architectures");
  const Json* type = config.find("model_type");
  if (type != nullptr && type->kind() == Json::Kind::null) type = nullptr;
  const bool has_name = named != nullptr && named->kind() != Json::Kind::null && !named->items().empty();
  if (!has_name && type == nullptr) config.fail("neither \"architectures\" nor \"model_type\" names one");
  const std::string name = has_name ? named->items()[0].as_text() : "",
                    of = type != nullptr ? type->as_text() : "";
  const Json& where = has_name ? named->items()[0] : *type;
  if (type != nullptr) {
    if (const Json* row = hf_row(of); row != nullptr && row->find("refused") != nullptr)
      checked({of, has_name ? name : of, row, nullptr, false}, where);
    if (const auto found = as_read(of, name)) return checked(*found, where);
  }
  std::optional<HfType> found;
  for (const auto& [known, row] : rows()) {
    const auto one = has_name ? as_read(known, name) : std::nullopt;
    if (one && (!found || named_after(name, known))) found = one;
  }
  if (found) {
    if (const Json* own = classes().find(of))
      found->library = own;
    else if (!of.empty() && config.find("auto_map") == nullptr)  // it names code with the type
      type->fail(fmt::format("model_type \"{}\" is unknown; the type of {} is \"{}\"", printable(of), name,
                             found->name));
    return checked(*found, where);
  }
  refuse(where, of, has_name ? name : of);
}

HfType hf_type_named(const std::string& name, const Json& where) {
  if (const auto found = as_read(name, "")) return checked(*found, where);
  refuse(where, name, name);
}

const Json* hf_row(const std::string& name) {
  const auto at = rows().find(name);
  return at != rows().end() ? &at->second : nullptr;
}

const Json* hf_like(const Json& row) {
  const Json* of = row.find("like");
  return of != nullptr ? hf_row(of->as_text()) : nullptr;
}

const Json* hf_of_row(const HfType& type, const char* key) {
  for (const Json* row = type.row; row != nullptr; row = hf_like(*row)) {
    if (const Json* value = row->find(key)) return value;
  }
  return nullptr;
}

}  // namespace tandem::models
