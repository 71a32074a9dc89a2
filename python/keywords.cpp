// SPDX-License-Identifier: Apache-2.0
#include "python/keywords.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "python/document.h"

namespace tandem::python {

namespace nb = nanobind;

namespace {

bool holds_document(const Option& option) {
  return option.name == "model" || option.name == "system" || option.name == "question";
}

bool reserved(std::string_view word) {
  static const std::set<std::string_view> words = {"with", "from", "in", "is", "not", "for", "if", "as"};
  return words.count(word) != 0;
}

/// Whether several values of it are one text with commas.
bool lists(const Option& option) {
  std::string value(option.value);
  if (const auto settings = value.find("[:key=value,...]"); settings != std::string::npos)
    value.erase(settings, std::string_view("[:key=value,...]").size());
  return value.find("[,") != std::string::npos || value.find(",...") != std::string::npos;
}

const Option& option_of(std::string_view function, const std::vector<Option>& options, std::string name) {
  const std::string given = name;
  if (name.size() > 1 && name.back() == '_') name.pop_back();
  std::replace(name.begin(), name.end(), '_', '-');
  std::vector<std::string> known;
  for (const Option& option : options) {
    if (option.name == name || (!option.formerly.empty() && option.formerly == name)) return option;
    known.push_back(keyword_of(option));
  }
  throw UsageError(fmt::format("tandem.{} has no option \"{}\".{} All: help(tandem.{})", function,
                               printable(given), did_you_mean(given, known), function));
}

bool is_list(nb::handle value) {
  return !nb::isinstance<nb::str>(value) && !nb::isinstance<nb::bytes>(value) &&
         !nb::isinstance<nb::dict>(value) && nb::hasattr(value, "__iter__") &&
         !nb::hasattr(value, "__fspath__") && !nb::hasattr(value, "keys");
}

/// As text_of(), and True and False where these are values.
std::string word_of(const Option& option, nb::handle value) {
  if (option.value == "true|false" && nb::isinstance<nb::bool_>(value))
    return nb::cast<bool>(value) ? "true" : "false";
  return text_of(option.name, value);
}

void add_keyword(Values& out, const Option& option, nb::handle value) {
  if (option.value.empty()) {
    if (!nb::isinstance<nb::bool_>(value)) refuse_option(option.name, "True or False is expected");
    if (nb::cast<bool>(value)) out.add(option.name, "");
    return;
  }
  if (!is_list(value)) {
    out.add(option.name, word_of(option, value));
    return;
  }
  std::vector<std::string> texts;
  for (const nb::handle item : value) texts.push_back(word_of(option, item));
  if (option.repeatable) {
    for (std::string& text : texts) out.add(option.name, std::move(text));
  } else if (lists(option) && !texts.empty()) {
    out.add(option.name, fmt::format("{}", fmt::join(texts, ",")));
  } else {
    refuse_option(option.name, texts.empty() ? "the list is empty" : "takes one value, not a list");
  }
}

std::string type_of(const Option& option) {
  if (option.value.empty()) return "bool | None";
  std::string out = "str";
  if (option.name == "question") return "Question | Report | collections.abc.Mapping | str | None";
  if (option.name == "model") out = "Model | collections.abc.Mapping | str";
  if (option.name == "system") out = "System | collections.abc.Mapping | str";
  if (!holds_document(option)) out += " | float";
  if (option.repeatable || lists(option)) out += " | collections.abc.Sequence";
  return out + " | None";
}

}  // namespace

std::string trimmed(std::string text) {
  constexpr const char* kSpace = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string::npos || text[first] != '{') return text;
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::string text_of(std::string_view option, nb::handle value) {
  if (nb::isinstance<nb::str>(value)) return trimmed(nb::cast<std::string>(value));
  if (nb::isinstance<ModelValue>(value)) return nb::cast<const ModelValue&>(value).text;
  if (nb::isinstance<SystemValue>(value)) return nb::cast<const SystemValue&>(value).text;
  if (nb::isinstance<QuestionValue>(value))
    return nb::cast<const QuestionValue&>(value).question->to_json().dump();
  if (nb::isinstance<Document>(value)) return trimmed(nb::cast<Document&>(value).text());
  if (nb::hasattr(value, "__fspath__"))
    return nb::cast<std::string>(nb::module_::import_("os").attr("fspath")(value));
  if (nb::isinstance<nb::dict>(value) || nb::hasattr(value, "keys"))
    return nb::cast<std::string>(nb::module_::import_("json").attr("dumps")(value));
  if (!nb::isinstance<nb::bool_>(value) && nb::hasattr(value, "__index__"))
    return nb::cast<std::string>(nb::str(nb::module_::import_("operator").attr("index")(value)));
  if (!nb::isinstance<nb::bool_>(value) && nb::hasattr(value, "__float__"))
    return fmt::format("{}", nb::cast<double>(nb::module_::import_("builtins").attr("float")(value)));
  refuse_option(option, fmt::format("a text or a number is expected, not {}",
                                    nb::cast<std::string>(nb::str(value.type().attr("__name__")))));
}

Values read_keywords(std::string_view function, const std::vector<Option>& options,
                     const nb::dict& keywords) {
  Values out;
  for (const auto& [key, value] : keywords) {
    const Option& option = option_of(function, options, nb::cast<std::string>(key));
    if (value.is_none()) continue;
    if (out.has(option.name)) refuse_option(option.name, "is given twice");
    add_keyword(out, option, value);
  }
  return out;
}

std::string keyword_of(const Option& option) {
  std::string out(option.name);
  std::replace(out.begin(), out.end(), '-', '_');
  return reserved(out) ? out + "_" : out;
}

std::string signature_of(std::string_view start, const std::vector<Option>& options,
                         std::string_view result) {
  std::string out(start);
  for (const Option& option : options)
    out += fmt::format(", {}: {} = None", keyword_of(option), type_of(option));
  return fmt::format("{}) -> {}", out, result);
}

std::string signature_of(const Verb& verb) {
  std::vector<Option> options = verb.options;
  if (!verb.words.empty())
    return signature_of(fmt::format("def {}(*{}: str | System | Report", verb.name, verb.words), options,
                        "Report");
  const auto question = std::find_if(options.begin(), options.end(),
                                     [](const Option& option) { return option.name == "question"; });
  if (question == options.end()) return signature_of(fmt::format("def {}(*", verb.name), options, "Report");
  const std::string first = fmt::format("question: {} = None", type_of(*question));
  options.erase(question);
  return signature_of(fmt::format("def {}({}, *", verb.name, first), options, "Report");
}

std::string docstring_of(std::string_view summary, const std::vector<Option>& options,
                         std::string_view result) {
  std::string out = fmt::format(
      "{}\n\nKeywords are the options of the command line, with the same defaults. Quantities are texts with "
      "their unit: \"25us\", \"12GB/s\", \"11GiB\".\n\nArgs:\n",
      summary);
  for (const Option& option : options)
    out += fmt::format("    {} ({}): {}\n", keyword_of(option),
                       option.value.empty() ? "bool" : std::string(option.value), option.help);
  return out + fmt::format(
                   "\nReturns:\n    {}.\n\nRaises:\n"
                   "    UsageError: an option that does not exist, or a value that it cannot have\n"
                   "    InputError: a name, a file or a combination that is wrong, with .file, .line and "
                   ".column\n",
                   result);
}

std::string docstring_of(const Verb& verb) {
  return docstring_of(verb.summary, verb.options,
                      "Report: a mapping, the document that `--format json` prints");
}

}  // namespace tandem::python
