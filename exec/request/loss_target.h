// SPDX-License-Identifier: Apache-2.0
#pragma once
// A run that ends at a loss. Internal to exec.
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>

#include "exec/comm/sync.h"

namespace tandem::exec {

/// The loss that a run is to reach: the mean over the last `window` samples that workers trained on, each
/// evaluated before its own step (a single batch's loss is too noisy).
struct LossTarget {
  double loss = 0;
  int64_t window = 1024;
};

/// Receives the loss of every batch, in the order in which workers finish them. Any thread may call anything.
class LossWatch {
 public:
  explicit LossWatch(LossTarget target) : target_(target) {}

  /// The mean loss of a worker's next batch of that many samples. Returns whether the target is reached.
  bool add(double loss, int64_t samples) {
    const std::lock_guard guard(mutex_);
    if (samples_) return true;
    const auto count = [&](const Batch& b, int64_t sign) {
      sum_ += static_cast<double>(sign * b.samples) * b.loss;
      within_ += sign * b.samples;
    };
    seen_ += samples;
    last_.push_back({loss, samples});
    count(last_.back(), 1);
    while (within_ - last_.front().samples >= target_.window) {
      count(last_.front(), -1);
      last_.pop_front();
    }
    const bool full = within_ >= target_.window;
    if (!full || !(sum_ / static_cast<double>(within_) <= target_.loss)) return false;
    samples_ = seen_;
    when_ = now_ns();
    return true;
  }
  /// Samples seen when the target was reached.
  std::optional<int64_t> samples() const {
    const std::lock_guard guard(mutex_);
    return samples_;
  }
  int64_t when() const {
    const std::lock_guard guard(mutex_);
    return when_;
  }

 private:
  mutable std::mutex mutex_;
  const LossTarget target_;
  struct Batch {
    double loss;
    int64_t samples;
  };
  std::deque<Batch> last_;
  double sum_ = 0;                            ///< of the losses of the samples in `last_` ...
  int64_t within_ = 0, seen_ = 0, when_ = 0;  ///< ... and their number
  std::optional<int64_t> samples_;
};

}  // namespace tandem::exec
