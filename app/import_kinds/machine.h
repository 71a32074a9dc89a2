// SPDX-License-Identifier: Apache-2.0
#pragma once
// What kinds of files that speak of one machine share.
#include <optional>
#include <string>
#include <vector>

#include "app/import_kind.h"

namespace tandem::app {

/// Dumps of a machine become its system file; measured links join it, or the file that --system names;
/// measured links alone become their figures.
int import_machine(const Arguments& arguments, const std::vector<ImportFile>& files);

/// The folder that --out lies in; nothing where the result goes to stdout.
std::optional<std::string> result_folder(const Arguments& arguments);

}  // namespace tandem::app
