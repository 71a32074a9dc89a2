// SPDX-License-Identifier: Apache-2.0
#pragma once
// Names of an imported machine's vertices, and links between them written with as few ranges as possible
// ("gpu[0-7]" to "plx[0-3]"), the way topologies/ranges.h reads them.
#include <string>
#include <tuple>
#include <vector>

#include "topologies/import/machine.h"

namespace tandem::topologies {

struct VertexName {
  std::string stem;
  int index = 0;
  std::string text() const { return stem + std::to_string(index); }
};

/// `count` parallel cables between two vertices.
struct Edge {
  VertexName from, to;
  int count = 1;
};

/// Slots of the PCI tree are gpu0.., nic0.., plx0..: GPUs and NICs by their index, switches in tree order.
/// For one thread at a time.
class VertexNames {
 public:
  explicit VertexNames(const Machine& machine);
  const VertexName& of(int slot) const { return names_[static_cast<std::size_t>(slot)]; }

 private:
  std::vector<VertexName> names_;
};

/// {0, 1, 2, 5} -> "gpu[0-2,5]", {3} -> "gpu3". Ascending.
std::string range_of(const std::string& stem, const std::vector<int>& indices);

/// (from, to, cables) as a system file's "between" takes them. O(n log n).
std::vector<std::tuple<std::string, std::string, int>> group_edges(const std::vector<Edge>& edges);

}  // namespace tandem::topologies
