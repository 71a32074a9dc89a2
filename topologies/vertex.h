// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a node is made of.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/rooms.h"

namespace tandem::topologies {

enum class VertexKind : uint8_t { gpu, cpu, tpu, pcie_switch, nvswitch, nic, memory, storage };
std::string_view name(VertexKind kind);

/// A vertex of the node template.
struct Vertex {
  std::string name;  ///< "gpu3"
  VertexKind kind = VertexKind::gpu;
  int32_t device = -1;  ///< index into System::devices(), -1 where it is not a device
  int32_t numa = 0;     ///< socket
};

}  // namespace tandem::topologies
