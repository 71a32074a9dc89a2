// SPDX-License-Identifier: Apache-2.0
#include "schemes/step/stage_sums.h"

namespace tandem::schemes {

void sum_reached(RoleBuilder& role, const std::vector<StageBucket>& buckets,
                 const std::vector<BucketSum>& sums, const Emission& pass, std::vector<OpId>& reduced) {
  const auto latest = static_cast<int32_t>(pass.ops.size()) - 1;
  std::size_t reached = 0;
  const OpId made = pass.ops.back();
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    if (buckets[i].chunk != pass.slot.chunk || pass.passage->reached[reached++] != latest) continue;
    reduced[i] = sums[i].begin(role, sums[i].pack(role, made));
  }
}

void finish_sums(RoleBuilder& role, const std::vector<BucketSum>& sums, std::vector<OpId>& reduced) {
  for (std::size_t i = 0; i < sums.size(); ++i) reduced[i] = sums[i].finish(role, reduced[i]);
  for (std::size_t i = 0; i < sums.size(); ++i) reduced[i] = sums[i].unpack(role, reduced[i]);
}

std::vector<uint32_t> order_on(const std::vector<StageBucket>& buckets, const std::vector<uint32_t>& order) {
  std::vector<uint32_t> out;
  for (const uint32_t key : order) {
    for (uint32_t i = 0; i < buckets.size(); ++i)
      if (buckets[i].key == key) out.push_back(i);
  }
  return out;
}

}  // namespace tandem::schemes
