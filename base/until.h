// SPDX-License-Identifier: Apache-2.0
#pragma once
// Long work that can be ended: an answer that nobody waits for any more.
#include <atomic>
#include <stdexcept>

#include "base/rooms.h"

namespace tandem::base {

/// The work was ended by Until; nothing is wrong with what was asked.
class Stopped : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// While one lives, long work of its thread throws Stopped soon after `stop` is true: simulations, those that
/// in_parallel() starts for it too. They may be nested; the innermost counts.
class Until {
 public:
  /// `stop` must outlive it; null: the work is done to its end.
  explicit Until(const std::atomic<bool>* stop);
  ~Until();
  Until(const Until&) = delete;
  Until& operator=(const Until&) = delete;

  /// Of this thread; null if there is none.
  static const std::atomic<bool>* here();
  /// Throws Stopped if this thread's work is not wanted any more. Takes nanoseconds.
  static void check();

 private:
  const std::atomic<bool>* outer_;
};

}  // namespace tandem::base
