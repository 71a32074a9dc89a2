// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which iterations the workers of a run execute (semantics.md 1.7). Internal to exec.
#include <algorithm>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "exec/comm/sync.h"

namespace tandem::exec {

/// Deals out iterations to groups of workers that make equal numbers of them: a fixed number to a single
/// group of everybody or, in a free-running program, that many per group to whichever is ready first. A group
/// takes its next step when the first lane of its workers gets there, and everybody ends when none are left.
/// Any thread may call anything.
class Iterations {
 public:
  /// `step`: the number of iterations per step; each group makes `steps` steps on average. `groups`: from 0
  /// on, of each worker of this process, whose numbers begin with `first`.
  Iterations(int32_t steps, int32_t step, uint32_t first, std::vector<uint32_t> groups, Abort& abort)
      : first_(first),
        groups_(std::move(groups)),
        step_(step),
        left_(int64_t{steps} * count()),
        most_(left_ * step),
        taken_(count(), 0),
        begun_(count()) {
    for (Counter& c : begun_) abort.watch(&c);
  }
  /// Whether a lane of the worker may begin iteration `i`; if so all lanes of its group will run it.
  bool enter(uint32_t worker, int32_t i) {
    const uint32_t group = group_of(worker);
    const std::lock_guard guard(mutex_);
    if (i < taken_[group]) return true;
    if (left_ == 0) return false;
    taken_[group] += step_;
    begun_[group].set(static_cast<uint32_t>(taken_[group]));
    if (--left_ == 0) end();
    return true;
  }
  /// The same for a lane that loads input `ahead` iterations in advance, some of which may never run: takes
  /// none itself, and waits until the others are close enough. Throws Stopped.
  bool prefetch(uint32_t worker, int32_t i, int32_t ahead, const Abort& abort, int spins) {
    const uint32_t group = group_of(worker);
    if (i >= ahead) begun_[group].wait(static_cast<uint32_t>(i - ahead) + 1, abort, spins);
    const std::lock_guard guard(mutex_);
    return left_ > 0 || i < taken_[group];
  }
  /// No group begins another step.
  void stop() {
    const std::lock_guard guard(mutex_);
    left_ = 0;
    end();
  }
  /// The most that a group may make.
  int64_t most() const { return most_; }
  /// Started by the worker's group.
  int32_t of(uint32_t worker) const {
    const std::lock_guard guard(mutex_);
    return taken_[group_of(worker)];
  }

 private:
  uint32_t group_of(uint32_t worker) const { return groups_[worker - first_]; }
  std::size_t count() const { return *std::max_element(groups_.begin(), groups_.end()) + std::size_t{1}; }
  /// Releases lanes that wait for an iteration which will never begin.
  void end() {
    for (Counter& c : begun_) c.set(INT32_MAX);
  }

  mutable std::mutex mutex_;
  const uint32_t first_;
  const std::vector<uint32_t> groups_;  ///< [worker of this process]
  const int32_t step_;
  int64_t left_;  ///< steps
  const int64_t most_;
  std::vector<int32_t> taken_;  ///< [group]
  std::vector<Counter> begun_;  ///< [group]: as taken_, or INT32_MAX when none are left
};

}  // namespace tandem::exec
