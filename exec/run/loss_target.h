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
/// judged before its own step (a single batch's loss says little).
struct LossTarget {
  double loss = 0;
  int64_t window = 1024;
};

/// Sees the loss of every batch, in the order in which workers finish them. Any thread may call anything.
class LossWatch {
 public:
  LossWatch(LossTarget target, int64_t batch)
      : target_(target), batch_(batch), batches_((target.window + batch - 1) / batch) {}

  /// The mean loss of a worker's next batch. True once the target is reached.
  bool add(double loss) {
    const std::lock_guard guard(mutex_);
    if (samples_) return true;
    ++seen_;
    last_.push_back(loss);
    sum_ += loss;
    if (static_cast<int64_t>(last_.size()) > batches_) {
      sum_ -= last_.front();
      last_.pop_front();
    }
    const bool full = static_cast<int64_t>(last_.size()) == batches_;
    if (!full || !(sum_ / static_cast<double>(batches_) <= target_.loss)) return false;
    samples_ = seen_ * batch_;
    when_ = now_ns();
    return true;
  }
  /// Seen when the target was reached.
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
  const int64_t batch_, batches_;
  std::deque<double> last_;
  double sum_ = 0;
  int64_t seen_ = 0, when_ = 0;
  std::optional<int64_t> samples_;
};

}  // namespace tandem::exec
