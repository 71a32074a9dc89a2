// SPDX-License-Identifier: Apache-2.0
#pragma once
// Averages of parameters: what workers that train apart, or elastic averaging, keep beside them (semantics.md
// 2.6, 4.6). Internal to exec.
#include <vector>

#include "exec/workers/handler.h"

namespace tandem::exec {

/// What it binds runs on the compute lane's thread.
class Averages : public UpdateHandler {
 public:
  static Needs needs(const Asked& asked);
  explicit Averages(const Workplace& place);
  Act bind(uint32_t index) override;
  /// Of the device's memory, as kept_state() has the flat vector: the anchor, and behind it the velocity.
  float* anchor() const { return averaging_; }
  /// ExecutionResult::averaging of this worker's flat vector; after the run.
  std::vector<float> now() const;

 private:
  void start();

  float* averaging_ = nullptr;
};

}  // namespace tandem::exec
