// SPDX-License-Identifier: Apache-2.0
#pragma once
// Formats of 2 bytes in which gradients and gathered parameters travel. Internal to exec.
#include "exec/layout/half_gradients.h"
#include "exec/workers/handler.h"

namespace tandem::exec {

/// Used by collectives on their lanes' threads; casts that are ops of their own run on the compute lane's.
class HalfFormats : public OpHandler {
 public:
  static Needs needs(const Asked& asked);
  explicit HalfFormats(const Workplace& place);
  /// An op of its own in front of the sums, or behind them.
  Act bind(uint32_t index) override;
  /// Where an op's gradients lie in 2 bytes.
  float* memory_of(const Op& op) const;
  /// Where members' shares of gathered parameters lie.
  float* gathered() const { return narrowed_; }
  void narrow_gradients(const HalfGradients& form, float* words, const float* gradients, Lane lane) const;
  /// Of a reduce-scatter the member's part alone.
  void upcast_gradients(const HalfGradients& form, uint32_t rank, float* gradients, const float* words,
                        Lane lane) const;
  /// This worker's share of the parameters, to its place among all shares.
  void narrow_share(uint32_t key, float* words, Lane lane) const;
  /// Those of the others; its own it keeps in 4 bytes, as the optimiser left it.
  void upcast_shares(uint32_t key, const GroupMember& m, const float* words, int64_t each, Lane lane) const;

 private:
  float *narrowed_ = nullptr, *half_ = nullptr;
};

}  // namespace tandem::exec
