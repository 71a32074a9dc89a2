// SPDX-License-Identifier: Apache-2.0
#pragma once
// Questions of strangers: what they name is looked up among the data, and no file that they name is read.
#include <string>

#include "base/error.h"

namespace tandem::base {

/// While one lives, its thread reads files of `folder` alone (base/data.h): find_data() takes names and no
/// paths, read_file() refuses every other path and standard input. They may be nested; the innermost counts.
class OnlyNames {
 public:
  /// `folder` must outlive it.
  explicit OnlyNames(const std::string& folder);
  ~OnlyNames();
  OnlyNames(const OnlyNames&) = delete;
  OnlyNames& operator=(const OnlyNames&) = delete;

  /// Whether this thread has one.
  static bool here();
  /// Throws InputError if this thread may not read the file.
  static void check(const std::string& path, const Place& place = {});

 private:
  const std::string* outer_;
};

}  // namespace tandem::base
