// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which ops of a role are guaranteed to end before others begin, whatever the timing. Internal to exec.
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "schemes/program/program.h"

namespace tandem::exec {

/// Within one instance, by lane order and dependencies. Order implied by messages and collectives is not
/// counted. For one thread at a time.
class HappensBefore {
 public:
  explicit HappensBefore(const OpList& ops);  ///< O(ops + dependencies)
  /// Whether `first` has ended when `then` begins, in the same iteration or, with `next`, in the following
  /// one. The first question about a `first` is O(ops + dependencies), others O(1).
  bool before(uint32_t first, uint32_t then, bool next = false);

 private:
  const std::vector<bool>& reached(uint32_t first);

  std::vector<bool> always_;                                       ///< [op]: it runs in every iteration
  std::vector<std::vector<std::pair<uint32_t, uint32_t>>> after_;  ///< [op]: (op, 0, or 1: of the next)
  std::map<uint32_t, std::vector<bool>> reached_;  ///< [op][op, then those of the next iteration]
};

}  // namespace tandem::exec
