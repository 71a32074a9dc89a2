// SPDX-License-Identifier: Apache-2.0
#include "base/until.h"

namespace tandem::base {

namespace {

thread_local const std::atomic<bool>* unwanted = nullptr;

}  // namespace

Until::Until(const std::atomic<bool>* stop) : outer_(unwanted) { unwanted = stop; }
Until::~Until() { unwanted = outer_; }

const std::atomic<bool>* Until::here() { return unwanted; }

void Until::check() {
  if (unwanted != nullptr && unwanted->load(std::memory_order_relaxed)) throw Stopped("stopped");
}

}  // namespace tandem::base
