// SPDX-License-Identifier: Apache-2.0
#pragma once
// Forward and backward passes of a worker's layers. Internal to exec.
#include <cstdint>
#include <vector>

#include "exec/workers/gradient_sums.h"
#include "exec/workers/input.h"

namespace tandem::exec {

/// Its ops run on the compute lane's thread.
class Passes : public OpHandler {
 public:
  Passes(const Workplace& place, const PassPlan& plan, const GradientSums& sums, Input& input);
  Act bind(uint32_t index) override;

 private:
  /// A layer's calls. If devices exchange something in the middle of a pass it runs part by part.
  struct LayerLaunches {
    std::vector<std::vector<Launch>> forward, data;  ///< [part]: of forward, of the inputs' gradients
    std::vector<Launch> backward, weights;           ///< all of backward; its part for parameters' gradients
    std::vector<Launch> recompute;                   ///< forward once more
  };
  Launch prepare(const Call& call);
  void prepare_layer(uint32_t layer);
  void launch_layers(const PassWork& work, std::size_t variant, const IterationState& state);
  void find_uses();
  void forget(uint32_t key, Lane lane);
  void find_whole();
  void integers(int64_t begin, int64_t end, int32_t iteration);

  const PassPlan& pass_plan_;
  const GradientSums& sums_;
  Input& input_;
  std::vector<LayerLaunches> layers_;  ///< [layer]
  std::vector<std::vector<uint32_t>>
      forgets_;                 ///< [op]: buckets that are not needed until they are gathered again
  std::vector<int64_t> whole_;  ///< [element of the flat vector] with integer gradients: index in the model's
};

}  // namespace tandem::exec
