// SPDX-License-Identifier: Apache-2.0
#pragma once
// A table of how near every two devices are (nvidia-smi topo -m) and the PCI tree that it implies.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "topologies/import/machine.h"

namespace tandem::topologies {

struct PairMatrix {
  struct Cell {
    Nearness nearness = Nearness::sys;
    int cables = 0;  ///< NV#: direct cables hide how near the devices are on PCIe
    bool operator==(const Cell&) const = default;
  };
  struct Row {
    std::string name;  ///< "GPU0", "mlx5_0"
    bool gpu = false;
    int number = -1;  ///< of a GPU
    std::vector<Cell> cells{};
    std::string affinity{};  ///< "0-23,48-71" as written; empty = none given
    int threads = 0;         ///< logical processors in it
    int cores = 0;           ///< physical ones as far as the ranges tell
    int numa = -1;           ///< -1 = none given
    Place place{};
  };
  std::vector<Row> rows;  ///< in column order; as many cells each as there are rows

  /// Throws InputError where the table contradicts itself: not symmetric, or distances that no PCI tree has.
  void check(std::vector<std::string>& notes) const;
  /// O(rows^3) at worst. Notes what the table hides.
  Machine machine() const;
};

}  // namespace tandem::topologies
