// SPDX-License-Identifier: Apache-2.0
#pragma once
// In which order buckets go over the network where what the next forward needs first goes first: options
// "priority" and "credit" (Jayarajan et al. 2019, "Priority-based Parameter Propagation for Distributed DNN
// Training"; Peng et al. 2019, "A Generic Communication Scheduler for Distributed DNN Training
// Acceleration").
#include <fmt/format.h>

#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "schemes/program/builder.h"

namespace tandem::schemes {

/// What `scheme` cannot do with "priority". Throws InputError for the first that is asked for.
inline void refuse_with_priority(std::string_view scheme,
                                 std::initializer_list<std::pair<bool, const char*>> what) {
  for (const auto& [asked, name] : what) {
    if (asked)
      throw InputError(
          fmt::format("{}: priority=on updates layer by layer as soon as its sums are made, "
                      "which {} does not",
                      scheme, name));
  }
}

/// Hands out buckets in a given order, each when its gradients and those of all before it are there.
/// For one thread at a time.
class BucketOrder {
 public:
  /// Of `buckets` buckets; `order` empty: as their gradients get ready.
  BucketOrder(std::vector<uint32_t> order, std::size_t buckets) : order_(std::move(order)), made_(buckets) {
    for (uint32_t i = 0; order_.size() < buckets; ++i) order_.push_back(i);
    TANDEM_CHECK(order_.size() == buckets);
  }
  /// The gradients of bucket `key` are there with `gradient`.
  void made(uint32_t key, OpId gradient) { made_[key] = gradient; }
  /// next(key, gradient) for all whose turn has come.
  template <typename Next>
  void take(Next next) {
    for (; next_ < order_.size() && made_[order_[next_]].valid(); ++next_)
      next(order_[next_], made_[order_[next_]]);
  }

 private:
  std::vector<uint32_t> order_;
  std::vector<OpId> made_;  ///< [bucket]
  std::size_t next_ = 0;    ///< in order_
};

}  // namespace tandem::schemes
