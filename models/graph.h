// SPDX-License-Identifier: Apache-2.0
#pragma once
// A model: layers in a directed acyclic graph (a boost::adjacency_list inside), read from JSON.
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/description.h"
#include "models/slice.h"

namespace tandem::models {

/// Immutable once made: any thread may read it. Copies share what it holds and cost nothing.
class Graph {
 public:
  /// `name_or_file`: a name in models/zoo, a path ending in .json, or either followed by
  /// ":key=value,..." which overrides the file's "parameters". Throws InputError.
  static Graph load(const std::string& name_or_file, const Place& place = {});
  /// The same of a text, which messages call `file`: a model file, or what a reader in models/import
  /// recognises, whose model is then called "config".
  static Graph from_text(std::string_view text, const std::string& file);
  static Graph from_json(const Json& document, const Registry<LayerType>& types = layers_registry());
  /// Of layers whose shapes are not known yet; throws InputError where they do not fit.
  static Graph of(ModelDescription model);

  /// The part of this model that `slice` names, as a Graph with the same layer indices: shapes, parameters
  /// and kernels of the layers in it are one device's. The others are empty, but for those that one in it
  /// reads: they become inputs. An output layer tied to an embedding outside owns a copy of its weight.
  /// Requires a Graph that is no slice itself, or one of all layers that divides them equally. Throws
  /// InputError where a layer does not divide into that many parts, or none says how it splits. O(layers);
  /// the last divisions without ranges are remembered.
  Graph slice(const ModelSlice& slice) const;
  /// A slice's input that a layer outside makes: received from another device, and its gradient sent back.
  bool received(uint32_t layer) const;
  /// It, or a layer before it, in this slice or outside of it, has parameters.
  bool trained(uint32_t layer) const;
  int32_t shared_by() const;          ///< devices that share each layer: ModelSlice::ways
  bool deals_experts() const;         ///< over several of ModelSlice::experts
  bool divides_sequence() const;      ///< ModelSlice::sequence or ::context
  const ModelSlice& sharing() const;  ///< how devices divide its layers; without ranges
  /// The embedding whose weight an output layer uses; in a slice none where the layer has its own copy.
  /// None for all other layers. O(layers).
  std::optional<uint32_t> tied_to(uint32_t layer) const;

  /// Both share one model: a copy of a Graph, and it.
  bool same(const Graph& other) const { return impl_ == other.impl_; }
  const std::string& name() const;
  const std::string& summary() const;
  /// Topological order, stable with respect to the file's order; inputs first.
  const std::vector<Layer>& layers() const;
  int64_t parameter_elements() const;  ///< of what is learned
  int64_t frozen_elements() const;     ///< of Layer::frozen
  int64_t dealt_elements() const;      ///< of the parameters those of experts (Parameter::dealt)
  const Sample& sample() const;
  /// Elements of the input "tokens" where samples are sequences (of both sides of a translation), else 0.
  int64_t tokens_per_sample() const;
  const std::optional<Published>& published() const;
  /// Kernels of every layer for `batch` samples: same indices as layers(). O(layers). A layer that reads only
  /// what no parameter influences has no backward_data. Where several layers read one output, the layer that
  /// made it begins its backward pass with the sums of their gradients.
  std::vector<Lowered> lower(int64_t batch, Precision precision) const;
  /// Forward FLOPs of one sample in fp32 of matrix kernels (gemm, conv, attention), as papers count them.
  Flops forward_flops() const;

 private:
  struct Impl;
  explicit Graph(std::shared_ptr<const Impl> impl);
  std::shared_ptr<const Impl> sliced(const ModelSlice& slice) const;
  std::shared_ptr<const Impl> impl_;
};

/// FLOPs of the forward matrix kernels (gemm, conv, attention) of one lowered layer, as papers count them:
/// the scores that a causal mask hides included, although the kernel skips them (Narayanan et al. 2021).
Flops matrix_flops(const Lowered& lowered);

/// Names and summaries of models/zoo, sorted.
struct ModelEntry {
  std::string name, summary;
};
std::vector<ModelEntry> list_models();

}  // namespace tandem::models
