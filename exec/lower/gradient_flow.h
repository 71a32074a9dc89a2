// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which layers read each other's outputs, and how many gradients come back from them: the first phase of
// making a Graph executable (execution_graph.cpp). Internal to exec.
#include <cstdint>
#include <vector>

#include "models/graph.h"
#include "schemes/setup/recompute.h"

namespace tandem::exec {

/// How the passes of a slice of a model meet the world outside of it.
struct SliceUse {
  std::vector<uint32_t> sent = {};  ///< layers of it whose outputs another device reads too
  /// The gradients of parameters may be made long after those of the layers' inputs, not after each layer's.
  bool parts = false;
  /// The backend has batch_norm_relu and its kin (fused_norm.h).
  bool fuses = false;
  /// Place among the devices that share each layer. What all of them would add to a sum (a bias) the first
  /// adds.
  uint32_t partner = 0;
  uint32_t context = 0;          ///< place among the devices that divide each sequence
  const Graph* whole = nullptr;  ///< the model that it is a slice of; null: itself
  /// Of devices with uneven batches: times what the loss' gradient counts, its samples over those of a device
  /// on average, and samples of all that share statistics (0: as many on each).
  float loss_weight = 1;
  int64_t norm_samples = 0;
  Recompute recompute = {};
  /// That the layers' passes go over one after another; none: all layers are one.
  std::vector<LayerRange> chunks = {};
  std::vector<LayerRange> chunks_of(uint32_t layers) const {
    return chunks.empty() ? std::vector<LayerRange>{{0, layers}} : chunks;
  }
  /// Several micro-batches are under way, but only one of them is in a pass over a chunk.
  bool passes_alone = false;
};

/// Of a sequence that `contexts` devices divide: where row `t` of the `own` rows lies that the given one has,
/// the `context`-th and the last but `context`-th of twice as many chunks (semantics.md 2.5).
inline int64_t position_in_sequence(int64_t t, int64_t own, int64_t context, int64_t contexts) {
  const int64_t chunk = own / 2;
  if (contexts == 1) return t;
  return t < chunk ? context * chunk + t : (2 * contexts - 1 - context) * chunk + t - chunk;
}

/// Of one layer's output.
struct OutputFlow {
  bool learns = false;            ///< the layer or one before it has parameters
  bool sent = false;              ///< SliceUse::sent: one of its gradients comes from another device
  std::vector<uint32_t> readers;  ///< layers, once per edge
  int64_t elements = 0;           ///< for the whole batch
  /// Gradients that the readers hand back, other devices' among them; readers that take a part of it in place
  /// count as one together. 0 where nothing learns.
  int64_t gradients = 0;
  std::vector<Kernel> sums;  ///< kernels of the model that add these up, one an addition
};

/// Of a layer whose weights are stored in fewer bits: kernels of the model that write them out.
struct Restores {
  std::vector<Kernel> forward, backward;
};

struct GradientFlow {
  std::vector<Lowered> lowered;     ///< [layer]: Graph::lower, without OutputFlow::sums
  std::vector<OutputFlow> outputs;  ///< [layer]
  std::vector<Restores> restores;   ///< [layer]: they are not in `lowered`
  /// Does the layer read a part of `from`'s output where it lies?
  bool takes_part(uint32_t reader, uint32_t from) const {
    return lowered[reader].in_place && outputs[reader].elements < outputs[from].elements;
  }
};

/// Pure; any thread may call it. Throws InputError where a size overflows. O(layers + edges).
GradientFlow gradient_flow(const Graph& graph, int64_t batch, Precision precision, const SliceUse& use = {});

}  // namespace tandem::exec
