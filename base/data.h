// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where the data files live (models/zoo, topologies/systems, schemes/presets, calibration/...).
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace tandem::base {

/// What set_data_root() said, else $TANDEM_DATA if set, else what is installed with the program or library
/// that holds this code (share/tandem, ../share/tandem or ../../share/tandem from its folder), else the
/// source tree that it was built from. No trailing slash. Throws DeviceError, which names the folder, when no
/// models are in it. Any thread may call it.
const std::string& data_root();
/// For the whole process, before the first data_root(). Throws InputError after it, and where no models are
/// in the folder.
void set_data_root(const std::string& folder);

/// `name` as one of `names` spells it where they differ in case alone ("ResNet50"), else `name` itself.
std::string spelled_as(const std::string& name, const std::vector<std::string>& names);

/// Resolves what a user wrote, in any case: a path when it contains '/' or ends in ".json", else
/// <data_root>/<folder>/<name>.json. `kind` ("model") is for the message, which names the nearest entries
/// and ends with "All: tandem list models".
std::string find_data(std::string_view folder, std::string_view kind, const std::string& name_or_path,
                      const Place& place = {});

/// Names (without .json) in a data folder, sorted.
std::vector<std::string> list_data(std::string_view folder);

}  // namespace tandem::base
