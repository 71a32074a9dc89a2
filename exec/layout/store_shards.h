// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which shard of a parameter server holds which part of a bucket. Internal to exec.
#include <boost/range/irange.hpp>  // not std::views::iota: clang 14 cannot compile that of libstdc++ 12
#include <cstdint>
#include <functional>

#include "exec/comm/store.h"
#include "exec/request/execution.h"
#include "schemes/program/program.h"

namespace tandem::exec {

/// Made once, then only read: any thread may ask. Of a program without stores nothing but the counts.
class StoreShards {
 public:
  /// Both outlive it. `workers`: in all processes.
  StoreShards(const Program& program, const Execution& execution, uint32_t workers);

  uint32_t count() const { return count_; }
  uint32_t local() const { return local_; }  ///< workers of a node that push as one
  /// Flat vectors that workers and servers exchange: parameters, possibly followed by the optimiser's state.
  int64_t exchanged_vectors() const { return exchanged_vectors_; }
  /// Whether workers and servers exchange parameters, which only workers update.
  bool exchange_parameters() const;
  /// Whether each worker has its own model in the store, which others can reach.
  bool hold_models() const;
  /// The worker whose model is averaged with this worker's.
  uint32_t partner(const Op& op, uint32_t worker, int32_t iteration) const;
  /// The shards with the key, or with a part of it each.
  boost::integer_range<uint32_t> with(uint32_t key) const;
  /// The bucket `key`, cut for the local rank that pushes a share of it, then cut for a shard.
  Slice slice(uint32_t key, uint32_t worker, uint32_t shard) const;
  /// All slices, of all local ranks.
  void each_slice(const std::function<void(const Slice&)>& visit) const;

 private:
  const Program& program_;
  const uint64_t seed_;
  const uint32_t workers_;
  uint32_t count_ = 1, local_ = 1;
  int64_t exchanged_vectors_ = 1;
};

}  // namespace tandem::exec
