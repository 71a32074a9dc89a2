// SPDX-License-Identifier: Apache-2.0
#pragma once
// Options given with a question in a document: --question.
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "answers/question.h"

namespace tandem::answers {

/// --question FILE with its help.
Option question_flag();

/// For verbs that write reports: --no-timeline and --reproducible.
Option no_timeline_flag();
Option reproducible_flag();

/// How a verb reads a question's file.
struct FileRules {
  /// Changes the file's options first; null: none.
  void (*adapt)(Values& file) = nullptr;
  /// Whether these values of the command line come after the file's instead of replacing them.
  bool (*adds)(std::string_view option, const std::vector<std::string>& own) =
      [](std::string_view option, const std::vector<std::string>&) { return option == "set"; };
};

/// For a verb with some of a question's options among its `flags`: the values given, and what the document of
/// --question (a file, or the text of one) says where they are silent. `note` is told what the document says
/// and the verb lacks; it may be empty. Throws InputError and UsageError.
Values with_question(const Values& given, const std::vector<Option>& flags,
                     const std::function<void(std::string_view)>& note, const FileRules& rules = {});

/// The same for a verb that has all options of a question.
Values predict_values(const Values& given);
/// Their question. Errors about what a document says are at its place. Throws InputError and UsageError.
Question read_question(const Values& given, const Hooks& hooks);

}  // namespace tandem::answers
