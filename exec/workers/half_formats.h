// SPDX-License-Identifier: Apache-2.0
#pragma once
// 2-byte formats in which gradients and gathered parameters travel. Internal to exec.
#include <cstdint>
#include <span>

#include "exec/layout/half_gradients.h"
#include "exec/workers/handler.h"

namespace tandem::exec {

/// Used by collectives on their lanes' threads; casts that are separate ops run on the compute lane's.
class HalfFormats : public OpHandler {
 public:
  static Needs needs(const Asked& asked);
  explicit HalfFormats(const Workplace& place);
  /// A separate op before the sums, or after them.
  Act bind(uint32_t index) override;
  /// Where an op's 2-byte gradients are.
  float* memory_of(const Op& op) const;
  /// Where members' shares of gathered parameters are.
  float* gathered() const { return narrowed_; }
  /// No more than `from` has: a share that travels may be rounded up.
  void narrow_gradients(const HalfGradients& form, float* words, std::span<const float> from,
                        Lane lane) const;
  /// The reverse; for a reduce-scatter only the member's part.
  void upcast_gradients(const HalfGradients& form, uint32_t rank, std::span<float> to, const float* words,
                        Lane lane) const;
  /// This worker's share of the parameters, to its place among all shares.
  void narrow_share(uint32_t key, float* words, Lane lane) const;
  /// Those of the others; its own share stays in 4 bytes, as the optimiser left it.
  void upcast_shares(uint32_t key, const GroupMember& m, const float* words, int64_t each, Lane lane) const;

 private:
  float *narrowed_ = nullptr, *half_ = nullptr;
};

}  // namespace tandem::exec
