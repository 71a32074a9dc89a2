// SPDX-License-Identifier: Apache-2.0
#pragma once
// The losses of all iterations, kept on an asynchronous device until the run's end. Internal to exec.
#include <cstdint>
#include <vector>

#include "exec/device/backend.h"

namespace tandem::exec {

/// For the compute lane's thread.
class LossHistory {
 public:
  /// `each`: floats of a micro-batch, `micros` of which make an iteration. The device outlives it.
  LossHistory(DeviceSession& device, int64_t each, int64_t micros, int64_t most_iterations)
      : device_(device),
        each_(each),
        micros_(micros),
        now_(device.allocate(each * micros)),
        all_(device.allocate(each * micros * most_iterations)) {}
  bool empty() const { return each_ == 0; }
  /// Memory of the device that is written over before it is read.
  float* scratch() { return all_; }
  /// Copies a micro-batch's losses, on the compute lane.
  void take(const std::vector<float*>& at) {
    float* to = now_ + each_ * (taken_++ % micros_);
    for (const float* loss : at) device_.copy(to++, loss, 1, Lane::compute);
  }
  /// Those of an iteration, which were taken last, become history.
  void keep(int32_t iteration) {
    const int64_t losses = each_ * micros_;
    device_.copy(all_ + iteration * losses, now_, losses, Lane::compute);
  }
  /// [micro-batch]: sums of the losses of the first `iterations`. Waits for the device.
  std::vector<double> sums(int32_t iterations) const;

 private:
  DeviceSession& device_;
  const int64_t each_, micros_;
  int64_t taken_ = 0;              ///< micro-batches
  float *const now_, *const all_;  ///< on the device: of the current iteration, of all
};

}  // namespace tandem::exec
