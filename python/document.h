// SPDX-License-Identifier: Apache-2.0
#pragma once
// tandem.Report: a document as the command line prints it.
#include <nanobind/nanobind.h>

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "python/verbs.h"

namespace tandem::python {

/// Written and parsed when it is first looked at. For the thread that holds the interpreter's lock.
class Document {
 public:
  Document(Write write, std::vector<std::string> notes)
      : write_(std::move(write)), notes_(std::move(notes)) {}
  /// The bytes that the command line prints, with its last newline.
  const std::string& text();
  /// The same as Python's dict.
  nanobind::dict parsed();
  /// Its list of objects: reports, rows, choices, candidates or runs.
  nanobind::object rows();
  /// The main figures as a table.
  std::string html();
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  Write write_;
  std::vector<std::string> notes_;
  std::optional<std::string> text_;
  std::optional<nanobind::dict> parsed_;
};

/// Adds the class to the module.
void bind_document(nanobind::module_& module);

}  // namespace tandem::python
