// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the package can be asked: the verbs of the command line as functions from options to a document.
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "answers/question.h"

namespace tandem::python {

/// Writes the document that the command line prints with --format json, to the byte. May be called once, by
/// any thread.
using Write = std::function<std::string()>;

/// A function of the package.
struct Verb {
  std::string_view name, summary;
  std::string_view words;  ///< what its positional arguments are; empty: the question, and one at most
  std::vector<Option> options;
  /// `note` is told what the command line writes to stderr. Any thread may call it; throws InputError,
  /// UsageError and DeviceError.
  Write (*ask)(const Values& values, const std::vector<std::string>& words, const Hooks& hooks);
};

/// All of them.
const std::vector<Verb>& verbs();

/// A question that is asked again and again, read once.
std::shared_ptr<const Question> read_once(const Values& values, const Hooks& hooks);
/// Of a question that was read, with those options of predict that are none of a question's.
Write predict_question(const std::shared_ptr<const Question>& question, const Values& values);

/// What a package without executor can open for a question.
Hooks hooks(std::function<void(std::string_view)> note);

}  // namespace tandem::python
