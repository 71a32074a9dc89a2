// SPDX-License-Identifier: Apache-2.0
#include "exec/layout/store_shards.h"

#include <algorithm>

#include "exec/comm/collective.h"
#include "exec/layout/memory.h"

namespace tandem::exec {

StoreShards::StoreShards(const Program& program, const Execution& execution, uint32_t workers)
    : program_(program), seed_(execution.seed), workers_(workers) {
  if (program.stores.empty()) return;
  const Store& rules = program.stores[0];
  count_ = static_cast<uint32_t>(program.roles[rules.role].mesh.size());
  local_ = static_cast<uint32_t>(rules.shares);
  exchanged_vectors_ = vectors_of_stores(program, *execution.job.optimizer);
}

bool StoreShards::exchange_parameters() const {
  return !program_.stores.empty() && program_.stores[0].averaging.rule != Averaging::Rule::none;
}

bool StoreShards::hold_models() const { return !program_.stores.empty() && program_.stores[0].own_models; }

uint32_t StoreShards::partner(const Op& op, uint32_t worker, int32_t iteration) const {
  return peer_of(program_.channels[op.what].address, worker, workers_, seed_,
                 static_cast<uint32_t>(iteration));
}

boost::integer_range<uint32_t> StoreShards::with(uint32_t key) const {
  const Role& servers = program_.roles[program_.stores[0].role];
  const Instances held =
      holders(program_.channels[static_cast<std::size_t>(servers.on_channel)], key, int64_t{count_});
  return {held.first, held.first + held.count};
}

Slice StoreShards::slice(uint32_t key, uint32_t worker, uint32_t shard) const {
  const Bucket& bucket = program_.buckets[key];
  if (hold_models()) return {bucket.first, bucket.elements, shard};
  const int64_t all = bucket.elements * exchanged_vectors_;
  const uint32_t rank = worker % local_;
  const int64_t begin = chunk_begin(all, local_, rank), end = chunk_begin(all, local_, rank + 1);
  const auto held = with(key);
  const auto parts = static_cast<uint32_t>(held.size()), part = shard - held.front();
  const int64_t from = begin + chunk_begin(end - begin, parts, part),
                to = begin + chunk_begin(end - begin, parts, part + 1);
  return {bucket.first + from, to - from, shard};
}

void StoreShards::each_slice(const std::function<void(const Slice&)>& visit) const {
  for (uint32_t key = 0; key < program_.buckets.size(); ++key) {
    for (uint32_t rank = 0; rank < local_; ++rank) {
      for (const uint32_t shard : with(key)) visit(slice(key, rank, shard));
    }
  }
}

}  // namespace tandem::exec
