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
  std::size_t least_words = 0, most_words = 0;  ///< positional arguments; with --question none is needed
  /// What may follow these positional arguments; none: a file, or a name that no list has.
  std::vector<std::string> (*next)(const std::vector<std::string>& before) = nullptr;
  /// Returns the exit code; throws UsageError, InputError, DeviceError.
  int (*run)(const Arguments&) = nullptr;
  /// Paragraphs and examples after the options in --help; may be empty.
  std::string_view details{};
  bool has_command = false;  ///< what follows the word "--" is another command: Arguments::command()
  bool unchecked = false;  ///< accepts any option and word (for verbs that only report that they are missing)
};

/// Generated from the list in app/CMakeLists.txt.
const Registry<Verb>& verbs_registry();

/// The parsed command line of a verb, without unknown options, missing values or surplus words. Immutable
/// once made: any thread may read it.
class Arguments : public Values {
 public:
  Arguments() = default;
  /// From options that do not come from a command line.
  Arguments(Values values, std::vector<std::string> words)
      : Values(std::move(values)), words_(std::move(words)) {}
  /// `words`: everything after the verb.
  static Arguments parse(const Verb& verb, const std::vector<std::string>& words);

  const std::vector<std::string>& words() const { return words_; }
  /// What followed "--", for a verb with Verb::has_command.
  const std::vector<std::string>& command() const { return command_; }
  bool command_given() const { return command_given_; }
  /// The same with other values of one option, or without it if there are none.
  Arguments replaced(std::string_view name, std::vector<std::string> values) const;

 private:
  std::vector<std::string> words_, command_;
  bool command_given_ = false;
};

/// The --help page of a verb, with lines of at most `columns` characters.
std::string help_page(const Verb& verb, int columns);

}  // namespace tandem::app
