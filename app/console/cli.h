// SPDX-License-Identifier: Apache-2.0
#pragma once
// The verbs and their command lines: declared as data, parsed by Boost.Program_options.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "answers/values.h"
#include "base/registry.h"

namespace tandem::app {

class Arguments;

/// A verb. A new one is one file in app/verbs and one word in app/CMakeLists.txt.
struct Verb {
  std::string_view name;
  std::string_view summary{};
  /// What follows "tandem <name>" in the usage line, e.g. "KIND NAME [options]".
  std::string_view usage{};
  std::vector<Option> flags;
  std::size_t least_words = 0, most_words = 0;  ///< positional arguments
  /// Returns the exit code; throws UsageError, InputError, DeviceError.
  int (*run)(const Arguments&) = nullptr;
  /// Paragraphs and examples below the options of --help; may be empty.
  std::string_view details{};
  bool unchecked = false;  ///< takes any option and word (verbs that only say that they are not there yet)
};

/// Generated from the list in app/CMakeLists.txt.
const Registry<Verb>& verbs_registry();

/// What stood on the command line of a verb. Unknown options, missing values and surplus words have been
/// refused. Immutable once made: any thread may read it.
class Arguments : public Values {
 public:
  Arguments() = default;
  /// With other options than those of a command line.
  Arguments(Values values, std::vector<std::string> words)
      : Values(std::move(values)), words_(std::move(words)) {}
  /// `words`: everything after the verb.
  static Arguments parse(const Verb& verb, const std::vector<std::string>& words);

  const std::vector<std::string>& words() const { return words_; }
  /// The same with other values of an option; without any, without it.
  Arguments replaced(std::string_view name, std::vector<std::string> values) const;

 private:
  std::vector<std::string> words_;
};

/// The --help page of a verb, with lines of at most `columns` characters.
std::string help_page(const Verb& verb, int columns);

}  // namespace tandem::app
