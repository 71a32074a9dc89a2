// SPDX-License-Identifier: Apache-2.0
#include "sim/bound/groups.h"

namespace tandem::sim {

Groups::Groups(const Mesh& mesh, uint32_t axes) {
  const auto instances = static_cast<uint32_t>(mesh.size());
  std::vector<uint32_t> stride(mesh.axes.size(), 1);
  for (std::size_t a = mesh.axes.size(); a-- > 1;) {
    stride[a - 1] = stride[a] * static_cast<uint32_t>(mesh.axes[a].size);
  }
  for (std::size_t a = 0; a < mesh.axes.size(); ++a) {
    if ((axes >> a & 1U) == 0) continue;
    std::vector<uint32_t> grown;
    grown.reserve(offsets_.size() * static_cast<std::size_t>(mesh.axes[a].size));
    for (const uint32_t offset : offsets_) {
      for (int32_t k = 0; k < mesh.axes[a].size; ++k) {
        grown.push_back(offset + static_cast<uint32_t>(k) * stride[a]);
      }
    }
    offsets_ = std::move(grown);
  }
  of_.assign(instances, UINT32_MAX);
  for (uint32_t i = 0; i < instances; ++i) {
    if (of_[i] != UINT32_MAX) continue;
    for (const uint32_t offset : offsets_) of_[i + offset] = count();
    first_.push_back(i);
  }
}

}  // namespace tandem::sim
