// SPDX-License-Identifier: Apache-2.0
#pragma once
// When the events of an asynchronous device happened, by the host's clock. Internal to exec.
#include <cstdint>
#include <memory>

#include "exec/device/backend.h"

namespace tandem::exec {

/// For the compute lane's thread.
class DeviceClock {
 public:
  /// The device outlives it.
  explicit DeviceClock(DeviceSession& device) : device_(device) {}
  /// Reads both clocks. Before ns().
  void set();
  /// Of an event that has happened, as now_ns().
  int64_t ns(DeviceEvent& event) const {
    return base_ns_ + static_cast<int64_t>(device_.seconds_between(*base_, event) * 1e9);
  }
  /// Times are distances from an event, which would be coarse if that were long ago: they are
  /// single-precision milliseconds. mark() puts a newer one on the compute lane, which counts from move() on.
  void mark();
  void move();

 private:
  DeviceSession& device_;
  std::unique_ptr<DeviceEvent> base_, next_base_;
  int64_t base_ns_ = 0;
};

}  // namespace tandem::exec
