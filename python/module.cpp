// SPDX-License-Identifier: Apache-2.0
// The module tandem._tandem. Nothing is decided here: functions are answers/, plan/ and sweep/'s.
#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <deque>
#include <exception>

#include "base/version.h"
#include "python/document.h"
#include "python/keywords.h"
#include "python/plots.h"
#include "python/sweeps.h"
#include "python/values.h"
#include "python/verbs.h"

namespace tandem::python {

namespace nb = nanobind;

namespace {

/// For the life of the process: what nanobind and CPython point to.
const char* kept(std::string text) {
  static std::deque<std::string> texts;
  return texts.emplace_back(std::move(text)).c_str();
}

struct Exceptions {
  nb::object input, usage, device;
};
Exceptions& exceptions() {
  static auto* all = new Exceptions();  // never freed: the interpreter may be gone
  return *all;
}

nb::object new_exception(nb::module_& module, const char* name, const char* doc, const nb::object& base) {
  nb::object type = nb::steal(
      PyErr_NewExceptionWithDoc(kept(fmt::format("tandem._tandem.{}", name)), doc, base.ptr(), nullptr));
  module.attr(name) = type;
  return type;
}

void raise(const nb::object& type, const char* what) {
  nb::object error = type(what);
  if (PyErr_GivenExceptionMatches(error.ptr(), exceptions().input.ptr()) != 0) {
    const Place place = place_in(what);
    if (place.file) error.attr("file") = *place.file;
    if (place.line > 0) error.attr("line") = place.line;
    if (place.column > 0) error.attr("column") = place.column;
  }
  PyErr_SetObject(type.ptr(), error.ptr());
}

void bind_exceptions(nb::module_& module) {
  const nb::object value_error = nb::module_::import_("builtins").attr("ValueError");
  Exceptions& all = exceptions();
  all.input = new_exception(module, "InputError",
                            "A name, a file or a combination is wrong: what, what is valid, and the nearest "
                            "name. file, line and column are where, or None.",
                            value_error);
  for (const char* member : {"file", "line", "column"}) all.input.attr(member) = nb::none();
  all.usage = new_exception(module, "UsageError", "An option does not exist, or cannot have this value.",
                            value_error);
  all.device = new_exception(module, "DeviceError", "The installation is incomplete: it has no data.",
                             nb::module_::import_("builtins").attr("OSError"));
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const InputError& error) {
      raise(exceptions().input, error.what());
    } catch (const UsageError& error) {
      raise(exceptions().usage, error.what());
    } catch (const DeviceError& error) {
      raise(exceptions().device, error.what());
    }
  });
}

/// The result of `work`, which other threads of the interpreter do not wait for.
template <typename Work>
auto unlocked(Work work) {
  const nb::gil_scoped_release others;
  return work();
}

/// The words and options of a call.
struct Call {
  Values values;
  std::vector<std::string> words;
  std::shared_ptr<const Question> question;  ///< where nothing but a question is given
};

Call read_call(const Verb& verb, const nb::args& arguments, const nb::kwargs& keywords) {
  Call out;
  out.values = read_keywords(verb.name, verb.options, keywords);
  if (!verb.words.empty()) {
    for (const nb::handle word : arguments) out.words.push_back(text_of(verb.words, word));
    return out;
  }
  nb::object question = keywords.contains("question") ? nb::object(keywords["question"]) : nb::none();
  const bool asks = std::any_of(verb.options.begin(), verb.options.end(),
                                [](const Option& option) { return option.name == "question"; });
  if (arguments.size() > (asks ? 1U : 0U) || (arguments.size() == 1 && !question.is_none()))
    throw UsageError(fmt::format("tandem.{} takes {}; options are keywords", verb.name,
                                 asks ? "one question at most" : "keywords alone"));
  if (arguments.size() == 1) question = arguments[0];
  if (question.is_none()) return out;
  bool alone = nb::isinstance<QuestionValue>(question);
  for (const Option& option : question_options()) alone = alone && !out.values.has(option.name);
  if (alone) out.question = nb::cast<const QuestionValue&>(question).question;
  out.values.set("question", {text_of("question", question)});
  return out;
}

Document answered(const Verb& verb, const nb::args& arguments, const nb::kwargs& keywords) {
  const Call call = read_call(verb, arguments, keywords);
  std::vector<std::string> notes;
  Write write = unlocked([&] {
    if (call.question && verb.name == "predict") return predict_question(call.question, call.values);
    return verb.ask(call.values, call.words, hooks([&](std::string_view text) { notes.emplace_back(text); }));
  });
  return {std::move(write), std::move(notes)};
}

void bind_verbs(nb::module_& module) {
  for (const Verb& verb : verbs())
    module.def(
        verb.name.data(),
        [&verb](const nb::args& arguments, const nb::kwargs& keywords) {
          return answered(verb, arguments, keywords);
        },
        nb::sig(kept(signature_of(verb))), kept(docstring_of(verb)));
}

}  // namespace

NB_MODULE(_tandem, module) {
  module.doc() =
      "Predicts how fast a model trains on a machine, how stale its gradients are and how much "
      "memory each device needs.";
  module.attr("__version__") = version();
  bind_exceptions(module);
  bind_document(module);
  bind_values(module);
  bind_verbs(module);
  bind_sweep(module);
  bind_plot(module);
}

}  // namespace tandem::python
