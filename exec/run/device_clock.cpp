// SPDX-License-Identifier: Apache-2.0
#include "exec/run/device_clock.h"

#include <utility>

#include "exec/comm/sync.h"

namespace tandem::exec {

/// An event lies between the two readings around it. The closest pair of several attempts is used, and there
/// are more attempts while other programs keep the processor so busy that no pair is close.
void DeviceClock::set() {
  constexpr int kUsual = 8, kMost = 64;
  constexpr int64_t kClose = 100'000;  // ns
  int64_t closest = INT64_MAX;
  for (int i = 0; i < kUsual || (i < kMost && closest > kClose); ++i) {
    auto event = device_.make_event(true);
    const int64_t before = now_ns();
    device_.record(*event, Lane::compute);
    device_.synchronize(*event);
    const int64_t between = now_ns() - before;
    if (between >= closest) continue;
    closest = between;
    base_ns_ = before + between / 2;
    base_ = std::move(event);
  }
}

void DeviceClock::mark() {
  next_base_ = device_.make_event(true);
  device_.record(*next_base_, Lane::compute);
}

void DeviceClock::move() {
  device_.synchronize(*next_base_);
  base_ns_ = ns(*next_base_);
  base_ = std::move(next_base_);
}

}  // namespace tandem::exec
