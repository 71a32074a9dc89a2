#pragma once
// A verb of the command line. A new one is one file in app/verbs and one word in app/CMakeLists.txt. Floor 5.
#include <string>
#include <string_view>
#include <vector>

#include "app/cli.h"
#include "base/registry.h"

namespace tandem {

struct Verb {
  std::string_view name;
  std::string_view summary;
  /// What follows "tandem <name>" in the usage line, e.g. "KIND NAME [options]".
  std::string_view usage;
  std::vector<Flag> flags;
  std::size_t least_words = 0, most_words = 0;  ///< positional arguments
  /// Returns the exit code; throws UsageError, InputError, DeviceError.
  int (*run)(const Arguments&);
  /// Paragraphs and examples below the options of --help; may be empty.
  std::string_view details{};
  bool unchecked = false;  ///< takes any option and word (verbs that only say that they are not there yet)
};

/// Generated from the list in app/CMakeLists.txt.
const Registry<Verb>& verbs_registry();

}  // namespace tandem
