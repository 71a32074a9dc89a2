// SPDX-License-Identifier: Apache-2.0
#pragma once
// Files of devices that a system's file names: their paths count from that file.
#include <functional>
#include <string>

#include "base/json.h"

namespace tandem::topologies {

/// Whether a model is a file rather than a name in topologies/devices.
bool is_device_path(const std::string& model);

/// What a file in the folder `to` has to call a device file that one in the folder `from` calls `path`. An
/// empty folder is the current one; without `to` it may lie anywhere, so the path is absolute.
std::string moved_path(const std::string& path, const std::string& from, const std::string* to);

/// Replaces the path of every device file in a system's document, of all kinds of nodes.
void change_device_paths(Json& document, const std::function<std::string(const std::string&)>& change);

/// A system's document as it counts from the current folder; `file` is where it was read.
void anchor_devices(Json& document, const std::string& file);

}  // namespace tandem::topologies
