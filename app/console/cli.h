// SPDX-License-Identifier: Apache-2.0
#pragma once
// The verbs and their command lines: declared as data, parsed by Boost.Program_options.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/registry.h"

namespace tandem::app {

class Arguments;

/// Where to put the blame for an option's value: prints as "--name".
Place option_place(std::string_view name);

/// One option. `value` names what follows ("FILE"); empty for a switch. `formerly`: a name of earlier
/// versions that is still taken, so that scripts go on; help does not show it.
struct Flag {
  std::string_view name, value, help;
  bool repeatable = false;
  std::string_view formerly = {};
};

/// A verb. A new one is one file in app/verbs and one word in app/CMakeLists.txt.
struct Verb {
  std::string_view name;
  std::string_view summary{};
  /// What follows "tandem <name>" in the usage line, e.g. "KIND NAME [options]".
  std::string_view usage{};
  std::vector<Flag> flags;
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
/// refused; the readers below refuse values that are wrong whatever the data files hold: no number, out of
/// range, without unit, none of a fixed list. All of that is a UsageError. A name that no file has is an
/// InputError of whoever looks for the file.
/// Immutable once made: any thread may read it.
class Arguments {
 public:
  /// `words`: everything after the verb.
  static Arguments parse(const Verb& verb, const std::vector<std::string>& words);

  bool has(std::string_view name) const { return values_.count(name) != 0; }
  /// The value, or `fallback` when the option is absent.
  std::string text(std::string_view name, std::string_view fallback) const;
  /// The value; UsageError naming the option and an example when absent.
  std::string required(std::string_view name, std::string_view example) const;
  /// Every value of a repeatable option, in order.
  std::vector<std::string> all(std::string_view name) const;
  int64_t integer(std::string_view name, int64_t fallback, int64_t low, int64_t high) const;
  double real(std::string_view name, double fallback, double low, double high) const;
  /// "1,2,4,8": at least one, each within [low, high], none twice, order kept.
  std::vector<int64_t> integers(std::string_view name, std::vector<int64_t> fallback, int64_t low,
                                int64_t high) const;
  /// One of `valid`, else UsageError naming the nearest.
  std::string choice(std::string_view name, std::string_view fallback,
                     const std::vector<std::string>& valid) const;
  /// What `read(text, place)` makes of the value, or of `fallback` when the option is absent. An InputError
  /// of `read` becomes a UsageError.
  template <typename Read>
  decltype(auto) value(std::string_view name, std::string_view fallback, Read read) const {
    try {
      return read(text(name, fallback), option_place(name));
    } catch (const InputError& error) {
      throw UsageError(error.what());
    }
  }
  const std::vector<std::string>& words() const { return words_; }
  /// The same with other values of an option; without any, without it.
  Arguments replaced(std::string_view name, std::vector<std::string> values) const;
  /// Whether all options are the same.
  bool equal(const Arguments& other) const { return values_ == other.values_; }

 private:
  std::map<std::string, std::vector<std::string>, std::less<>> values_;
  std::vector<std::string> words_;
};

/// A UsageError about an option's value: "--name: what".
[[noreturn]] void refuse_option(std::string_view name, const std::string& what);
/// A whole number or a finite real, else UsageError at `place` with the range.
int64_t parse_integer(std::string_view text, int64_t low, int64_t high, const Place& place);
double parse_real(std::string_view text, double low, double high, const Place& place);

/// The --help page of a verb, with lines of at most `columns` characters.
std::string help_page(const Verb& verb, int columns);

}  // namespace tandem::app
