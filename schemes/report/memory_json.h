// SPDX-License-Identifier: Apache-2.0
#pragma once
// The memory of a report in its document.
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/json_writer.h"
#include "schemes/report/report.h"

namespace tandem::schemes {

JsonWriter memory_json(const MemoryUse& memory);
JsonWriter roles_json(const std::vector<RoleMemory>& roles);
/// What these write. Throw InputError for other types.
MemoryUse read_memory(const Json& memory);
std::vector<RoleMemory> read_roles(const Json& roles);
/// A number of bytes, 0 where it is not there.
Bytes bytes_of(const Json& object, std::string_view key);

}  // namespace tandem::schemes
