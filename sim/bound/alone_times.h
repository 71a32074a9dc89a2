// SPDX-License-Identifier: Apache-2.0
#pragma once
// What transfers take alone, each found once: thousands of ops may make the same one.
#include <cstdint>
#include <vector>

#include "sim/bound/bound_program.h"

namespace tandem::sim {

/// Of transfers that stay as they are; more may be added. Keeps references. For one thread at a time.
class AloneTimes {
 public:
  AloneTimes(const std::vector<Transfer>& transfers, const std::vector<double>& capacity)
      : transfers_(transfers), capacity_(capacity) {}
  Time of(int32_t transfer) {
    const auto t = static_cast<std::size_t>(transfer);
    if (t >= known_.size()) known_.resize(transfers_.size(), Time{-1});
    if (known_[t].ps < 0) known_[t] = transfers_.at(t).alone(capacity_);
    return known_[t];
  }

 private:
  const std::vector<Transfer>& transfers_;
  const std::vector<double>& capacity_;
  std::vector<Time> known_;  ///< [transfer]; negative: not asked for yet
};

}  // namespace tandem::sim
