// SPDX-License-Identifier: Apache-2.0
#include "base/only_names.h"

#include <fmt/format.h>

namespace tandem::base {

namespace {

thread_local const std::string* readable_folder = nullptr;

}  // namespace

OnlyNames::OnlyNames(const std::string& folder) : outer_(readable_folder) { readable_folder = &folder; }
OnlyNames::~OnlyNames() { readable_folder = outer_; }

bool OnlyNames::here() { return readable_folder != nullptr; }

void OnlyNames::check(const std::string& path, const Place& place) {
  if (readable_folder == nullptr) return;
  if (path.starts_with(*readable_folder + "/") && path.find("..") == std::string::npos) return;
  throw InputError(place, fmt::format("\"{}\" would be a file, and here only names are read: files are for "
                                      "the command line",
                                      printable(path)));
}

}  // namespace tandem::base
