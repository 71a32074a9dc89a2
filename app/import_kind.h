// SPDX-License-Identifier: Apache-2.0
#pragma once
// What `tandem import` reads. A new kind is one file in app/import_kinds and one word in app/CMakeLists.txt;
// a new reader of systems is one file in topologies/import and one word in topologies/CMakeLists.txt.
//
#include <string>
#include <string_view>
#include <vector>

#include "app/console/cli.h"
#include "base/registry.h"

namespace tandem::app {

/// One file of the command line, read whole; "-" is stdin and called "stdin".
struct ImportFile {
  std::string kind;  ///< name of its ImportKind
  std::string name;
  std::string text;  ///< of a large kind read by name only what it begins with
};

struct ImportKind {
  std::string_view name, summary;
  /// Whether a text looks like this kind: chooses the kind if the command line names none, and lets the
  /// message about a wrong kind name the right one. Never throws; reads only a prefix.
  bool (*recognises)(std::string_view text);
  /// Reads all files whose kinds share this function (sources of one machine), puts the result (put_result)
  /// and returns the exit code. Throws InputError.
  int (*run)(const Arguments& arguments, const std::vector<ImportFile>& files);
  std::vector<Option> flags;  ///< besides --out and --quiet; kinds may share one of the same name
  bool large = false;         ///< files may have any size and be packed by gzip: `run` reads them itself
};

/// Of kinds that make one thing of one file. Throws UsageError.
inline const ImportFile& only_file(const std::vector<ImportFile>& files) {
  if (files.size() != 1) throw UsageError("one such file is one question or model: import them one by one");
  return files[0];
}

/// Generated from the list in app/CMakeLists.txt.
const Registry<ImportKind>& import_kinds_registry();

}  // namespace tandem::app
