// SPDX-License-Identifier: Apache-2.0
#pragma once
// Options as keyword arguments: their names with "_" for "-", and another "_" where Python reserves the word
// ("with_").
#include <nanobind/nanobind.h>

#include <string>
#include <string_view>
#include <vector>

#include "models/graph.h"
#include "python/verbs.h"
#include "topologies/system.h"

namespace tandem::python {

/// tandem.Model and tandem.System: as an option's value, `text` is what names them.
struct ModelValue {
  std::string text;
  Graph graph;
};
struct SystemValue {
  std::string text, document;
  System system;
};
/// tandem.Question.
struct QuestionValue {
  std::shared_ptr<const Question> question;
};

/// The values of keyword arguments, of which each is one of `options`; None is as if it were not given.
/// `function` is what messages call the owner. Throws UsageError with the nearest name.
Values read_keywords(std::string_view function, const std::vector<Option>& options,
                     const nanobind::dict& keywords);
/// The text of one value: of a string, a path, a number, a Model, a System, a Question, a report or a
/// mapping.
std::string text_of(std::string_view option, nanobind::handle value);

/// Of a document, without the white space around it.
std::string trimmed(std::string text);

/// "batch", "no_timeline", "with_".
std::string keyword_of(const Option& option);
/// "def predict(question=None, *, model: ... = None, ...) -> Report".
std::string signature_of(const Verb& verb);
/// The same of something else with these options.
std::string signature_of(std::string_view start, const std::vector<Option>& options, std::string_view result);
/// Summary, a line for each option with its unit and default, what is returned and raised.
std::string docstring_of(const Verb& verb);
std::string docstring_of(std::string_view summary, const std::vector<Option>& options,
                         std::string_view result);

}  // namespace tandem::python
