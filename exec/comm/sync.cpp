// SPDX-License-Identifier: Apache-2.0
#include "exec/comm/sync.h"

namespace tandem::exec {

void Abort::fail(std::exception_ptr why) {
  const std::lock_guard guard(mutex_);
  if (why_) return;  // waking twice would put the values back under those about to sleep
  why_ = std::move(why);
  failed_.store(true, std::memory_order_release);
  for (Counter* p : watched_) p->wake();
}

std::exception_ptr Abort::why() const {
  const std::lock_guard guard(mutex_);
  return why_;
}

void Abort::watch(Counter* counter) {
  const std::lock_guard guard(mutex_);
  watched_.push_back(counter);
}

}  // namespace tandem::exec
