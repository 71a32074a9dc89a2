// SPDX-License-Identifier: Apache-2.0
#pragma once
// The optimiser's steps on the device (semantics.md 2.7, 4.6). Internal to exec.
#include "exec/workers/handler.h"

namespace tandem::exec {

/// Its ops run on the compute lane's thread.
class Updates : public UpdateHandler {
 public:
  static Needs needs(const Asked& asked);
  explicit Updates(const Workplace& place);
  Act bind(uint32_t index) override;
  /// Flat gradients of iterations i % Program::delay, until they are applied.
  float* delayed() const { return delayed_; }

 private:
  Launch update(const Op& op, const Slice& part);
  Act update_late(const Op& op, const Slice& part, int32_t lag);
  Act update_model(const Op& op, const Slice& part);
  void find_judge();

  float* delayed_ = nullptr;
  uint32_t judge_ = UINT32_MAX;  ///< the op that checks all gradients of a step
};

}  // namespace tandem::exec
