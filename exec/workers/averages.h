// SPDX-License-Identifier: Apache-2.0
#pragma once
// Averages of parameters: the vectors kept by workers that train separately, or by elastic averaging
// (semantics.md 2.6, 4.6). Internal to exec.
#include <vector>

#include "exec/workers/handler.h"

namespace tandem::exec {

/// Its ops run on the compute lane's thread.
class Averages : public UpdateHandler {
 public:
  static Needs needs(const Asked& asked);
  explicit Averages(const Workplace& place);
  Act bind(uint32_t index) override;
  /// In device memory, ordered as the flat vector in kept_state(): the anchor, then the velocity.
  float* anchor() const { return averaging_; }
  /// ExecutionResult::averaging of this worker's flat vector; after the run.
  std::vector<float> now() const;

 private:
  void start();

  float* averaging_ = nullptr;
};

}  // namespace tandem::exec
