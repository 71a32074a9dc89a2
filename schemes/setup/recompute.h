// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a backward pass makes again instead of finding it kept, also called activation checkpointing.
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "models/graph.h"

namespace tandem::schemes {

struct Recompute {
  /// Repeated blocks keep their input alone and run forward once more before their backward (Chen et
  /// al. 2016, Training Deep Nets with Sublinear Memory Cost). Alone or not at all.
  bool blocks = false;
  /// With `blocks`: attention and every second matrix product of a block, from the first on, stay and are not
  /// recomputed (torchtitan's SelectiveAC).
  bool products = false;
  /// Selectively (Korthikanti et al. 2022, section 5; Megatron-Core's recompute_modules): outputs of layer
  /// and RMS norms ("layernorm"); those of activations, their products with gates, and the same inside
  /// experts
  /// ("moe_act"); what attention makes between its input and its output ("core_attn").
  bool norms = false, activations = false, attention = false;

  bool operator==(const Recompute&) const = default;
  /// What is to be recomputed layer by layer is not made in a launch with its neighbours (Kernel::fused).
  bool fuses_norms() const { return *this == Recompute{}; }
  bool selective() const { return norms || activations || attention; }
  /// Of a layer: its output is let go of after its readers and recomputed for their backward passes.
  bool drops_output(const Lowered& lowered) const;
  /// Of a layer: the tensors that it makes for itself (OwnTensor::remade, all of an attention) are.
  bool drops_own(const Lowered& lowered, const OwnTensor& own) const;
  /// "off", "blocks", "products", "norms+activations".
  std::string text() const;
};

/// As text() gives it; the selective ones in any order. Throws InputError at `place`.
Recompute parse_recompute(std::string_view text, const Place& place);

/// The repeated blocks among these layers that run forward again, each as a whole before the backward
/// pass of its last layer: those in or before which something learns. In order. O(layers).
std::vector<LayerRange> blocks_again(const Recompute& recompute, const Graph& graph, LayerRange layers);

/// [layer]: the part of its output that stays though its block runs forward again; the rest is recomputed. A
/// projection of queries, keys and values is three products. Empty where nothing does. O(layers).
std::vector<double> kept_outputs(const Recompute& recompute, const Graph& graph);
/// Of a layer's forward kernels those that make so much of its output as does not stay.
std::vector<Kernel> kernels_but(const std::vector<Kernel>& forward, double kept);

/// What the layer runs again: with its block, or in its own backward pass. O(kernels).
std::vector<Kernel> kernels_again(const Recompute& recompute, const Layer& layer, const Lowered& lowered);

}  // namespace tandem::schemes
