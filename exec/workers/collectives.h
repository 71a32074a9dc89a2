// SPDX-License-Identifier: Apache-2.0
#pragma once
// Collectives of which a worker is a member. Internal to exec.
#include <functional>
#include <utility>
#include <vector>

#include "exec/workers/compression.h"
#include "exec/workers/gradient_sums.h"
#include "exec/workers/half_formats.h"
#include "exec/workers/updates.h"

namespace tandem::exec {

/// Its ops run on the threads of its collectives' lanes; records are read after the run.
class Collectives : public OpHandler {
 public:
  /// The memory that takes part.
  struct Parts {
    const PassPlan& plan;
    const GradientSums& sums;
    const HalfFormats& half;
    const GradientCompression& compression;
    const Updates& updates;
  };
  static Needs needs(const Asked& asked);
  Collectives(const Workplace& place, const Parts& parts);
  Act bind(uint32_t index) override;
  /// Gradients that a coordinator merges are no longer summed by their own op. Call when all are bound.
  void coordinate();
  /// With the device's library, by the compute lane's thread before the first iteration.
  void join_groups();
  /// The library's own estimates of its collectives, after the last iteration; with Keep::calls.
  void ask_library();

  double estimate(uint32_t op) const { return estimates_[op]; }
  double in_row(uint32_t op) const { return in_row_[op]; }
  const std::vector<GradientNorms>& norms() const { return norms_; }  ///< [step], with Keep::norms

 private:
  struct Buffer;
  struct Meeting;
  Act collective(uint32_t index);
  Buffer buffer(uint32_t index) const;
  Buffer buffer_of_layer(uint32_t index) const;
  bool averages_share(const Op& op) const;
  void move_parts(const Buffer& whole, uint32_t rank, bool out, Lane lane);
  int64_t meet(const Meeting& meeting, float* at);
  double time_in_row(const Meeting& meeting, float* at);
  Act bring_share(uint32_t index);
  Act keep_share(uint32_t index);
  int64_t noting_norms(Slice gradients, int32_t iteration, const std::function<int64_t()>& sum);

  const Parts parts_;
  float *outputs_ = nullptr, *joined_ = nullptr;
  std::vector<std::function<void()>> asks_;  ///< one per op that the device's library runs
  std::vector<double> estimates_, in_row_;   ///< [op]
  std::vector<GradientNorms> norms_;         ///< [step]
};

}  // namespace tandem::exec
