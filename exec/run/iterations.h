// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which iterations the workers of a run execute (semantics.md 1.7). Internal to exec.
#include <cstdint>
#include <mutex>
#include <vector>

#include "exec/comm/sync.h"

namespace tandem::exec {

/// Deals out iterations to groups of workers that make equal numbers of them: a fixed number to a single
/// group of everybody or, in a free-running program, that many per group to whichever is ready first. A group
/// takes its next step when the first lane of its workers gets there, and everybody ends when none are left.
/// Any thread may call anything.
class Iterations {
 public:
  /// `step`: the number of iterations per step; each group makes `steps` steps on average.
  Iterations(int32_t steps, int32_t step, uint32_t groups, Abort& abort)
      : step_(step), left_(int64_t{steps} * groups), most_(left_ * step), taken_(groups, 0), begun_(groups) {
    for (Counter& c : begun_) abort.watch(&c);
  }
  /// Whether a lane of the group may begin iteration `i`; if so all the group's lanes will run it.
  bool enter(uint32_t group, int32_t i) {
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
  bool prefetch(uint32_t group, int32_t i, int32_t ahead, const Abort& abort, int spins) {
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
  /// Started by the group.
  int32_t of(uint32_t group) const {
    const std::lock_guard guard(mutex_);
    return taken_[group];
  }

 private:
  /// Releases lanes that wait for an iteration which will never begin.
  void end() {
    for (Counter& c : begun_) c.set(INT32_MAX);
  }

  mutable std::mutex mutex_;
  const int32_t step_;
  int64_t left_;  ///< steps
  const int64_t most_;
  std::vector<int32_t> taken_;  ///< [group]
  std::vector<Counter> begun_;  ///< [group]: as taken_, or INT32_MAX when none are left
};

}  // namespace tandem::exec
