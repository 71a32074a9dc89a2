// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a layer type is: one function from input shapes and attributes to an output shape, parameters and
// kernels. A new type is one file in models/layers and one word in models/CMakeLists.txt.
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/precision.h"
#include "base/registry.h"
#include "models/layers/kernel.h"

namespace tandem::models {

/// Sizes of one sample's tensor, without the batch: {channels, height, width}, {time, width}, {features};
/// a scalar is {}. Images are channels-first by convention, whatever the storage order.
using Shape = std::vector<int64_t>;
std::string to_text(const Shape& shape);                  ///< "64x56x56", "scalar"
int64_t elements(const Shape& shape);                     ///< checked product
int64_t product(std::initializer_list<int64_t> factors);  ///< checked

/// Reader of a layer's attributes that remembers what was asked for: finish() refuses the rest, naming
/// the nearest attribute that the layer does understand. Keys must outlive the reader (literals).
/// For one thread at a time.
class Attributes {
 public:
  explicit Attributes(const Json& object) : json_(&object) {}
  int64_t integer(std::string_view key, int64_t fallback, int64_t low = 1, int64_t high = INT32_MAX) const;
  int64_t integer(std::string_view key) const;  ///< required, >= 1
  double real(std::string_view key, double fallback, double low = -1e30, double high = 1e30) const;
  bool boolean(std::string_view key, bool fallback) const;  ///< true, false, 1 or 0 (of an expression)
  std::string text(std::string_view key, std::string_view fallback) const;
  bool has(std::string_view key) const;
  bool is_text(std::string_view key) const;
  /// A number for all `dims` dimensions or a list of `dims` numbers.
  std::vector<int64_t> list(std::string_view key, std::size_t dims, int64_t fallback, int64_t low = 0) const;
  /// The same, but required and each at least 1: a kernel, a size.
  std::vector<int64_t> sizes(std::string_view key, std::size_t dims) const;
  /// A list of any length; required.
  std::vector<int64_t> list(std::string_view key, int64_t low = 0) const;
  /// Called by the graph after the layer type has read its attributes.
  void finish() const;
  const Place& place() const { return json_->place(); }
  [[noreturn]] void fail(const std::string& why) const { json_->fail(why); }

 private:
  const Json* ask(std::string_view key) const;
  const Json& require(std::string_view key) const;
  const Json* json_;
  mutable std::vector<std::string_view> asked_;
};

/// The feature dimension of a layer: the last one or, for images with "axis": 0, the channels.
std::size_t feature_axis(const Attributes& attributes, const Shape& shape);

/// How a layer's weights divide over the devices that share it (Shoeybi et al. 2019, Megatron-LM, section 3),
/// from the model file: "split": "columns".
enum class Split : uint8_t {
  whole,       ///< every device has all of them and does the same work
  columns,     ///< outputs are divided: each device makes its own from the whole input
  rows,        ///< inputs are divided: each device makes a part of every sum
  heads,       ///< of attention
  vocabulary,  ///< rows of an embedding or columns of an output layer are divided; rounded up to equal parts
  experts,     ///< dealt to devices, or each divided by columns and then by rows
};

/// Communication between a shared layer and its neighbours, named after the forward pass; backward does the
/// opposite (Korthikanti et al. 2022, arXiv 2205.05198, section 4).
enum class Join : uint8_t {
  none,
  copy,     ///< of an input: nothing; its gradient is summed over the devices
  sum,      ///< of an output: summed over the devices; its gradient is already complete
  gather,   ///< of an input: its parts of the sequence are gathered; its gradient is reduced and scattered
  scatter,  ///< of an output: summed and scattered along the sequence; its gradient is gathered
};

/// Communication in the middle of a pass over a divided layer.
struct Exchange {
  enum class Kind : uint8_t {
    all_to_all,  ///< among devices with different experts: tokens to their experts, or back
    gather,      ///< among devices that share the layer: parts become the whole
    scatter,     ///< the reverse, summed
    shift,       ///< among devices with parts of a sequence: each sends to the next, the last to the first
    sum,         ///< among devices that share the layer: of partial results
    statistics,  ///< summed, among devices with different samples
  } kind = Kind::all_to_all;
  uint32_t after = 0;    ///< the number of the pass's kernels before it
  uint32_t before = 0;   ///< the kernel that waits for it; past the last: what follows the layer
  int64_t elements = 0;  ///< of the whole batch in one device's buffer; for gather and scatter of the whole
  int64_t active = 0, count = 0;  ///< all_to_all: each token travels to `active` experts of `count`
};

/// The arguments of a layer type's function.
struct LayerInput {
  const std::vector<Shape>& shapes;  ///< of its inputs, one sample each
  const Attributes& attributes;
  int64_t batch = 1;  ///< samples in one pass
  Precision precision = Precision::fp32;
  int32_t ways = 1;       ///< devices that share the layer: shapes, parameters and kernels are those of one
  bool sequence = false;  ///< each of them has an equal part of the sequence between shared layers
  int32_t experts = 1;    ///< this and the following: as in ModelSlice
  bool whole_experts = false;
  double capacity = 0;
  int32_t context = 1;
  bool divided = false;      ///< its first input holds one of `ways` parts of the features
  bool frozen = false;       ///< its weights are not learned, so nothing is kept for their gradients
  int32_t norm_devices = 1;  ///< as in ModelSlice
  /// The layer's "split", which must be `whole` or one of `valid`.
  Split split(std::initializer_list<Split> valid) const;
  /// One of `ways` equal parts of `count`; fails if not divisible, calling it `what`.
  int64_t part(int64_t count, std::string_view what) const;
  /// The only input's shape; fails unless there is exactly one input of at least `least_dims` dimensions.
  const Shape& only(std::size_t least_dims = 0) const;
  int64_t element_size() const { return element_bytes(precision); }
  /// Elements of a tensor of that shape for the whole batch.
  int64_t total(const Shape& shape) const { return checked_mul(batch, elements(shape), "a tensor"); }
};

/// One learned tensor.
struct Parameter {
  std::string name;  ///< "weight", "bias", ...
  int64_t elements = 0;
  bool dealt = false;  ///< an expert's: other devices may hold others, and fewer sum its gradient
  /// In a slice: the devices that share the layer replicate it, and each computes its gradient from its part
  /// of the sequence or its heads, so these gradients are summed over them.
  bool in_parts = false;
  /// Rows of the matrix as it is stored: outputs of a convolution, inputs of a linear layer, words of an
  /// embedding, gates of a recurrent layer. 0: a vector, or a stack of matrices.
  int64_t rows = 0;
  /// Number of matrices of `inner` rows in it that map hidden features to hidden ones: of linear layers other
  /// than the logits', experts and recurrent cells. 0: a vector, image filters, words, or the logits' layer.
  int64_t hidden = 0, inner = 0;
  bool by_head = false;  ///< its last dimension belongs to the device's heads
};

/// A tensor that a layer makes in addition to its output.
struct OwnTensor {
  int64_t elements = 0;  ///< of one sample
  int64_t size = 0;      ///< bytes an element; 0 = as the pass computes
  /// Until its backward pass is over, or only during one of its passes.
  enum class Life : uint8_t { kept, forward, backward } life = Life::kept;
  bool remade = false;  ///< Lowered::remade can recompute it from the others
  /// Of a norm or gated activation composed of simple operations; if it is one kernel its inputs are kept
  /// instead.
  bool composed = false;
};

/// The result. Kernels are for the whole batch at the given precision. `backward_weights` holds the kernels
/// of the parameter gradients, `backward_data` those of the input's gradient (Graph::lower drops them if no
/// earlier layer has parameters).
struct Lowered {
  /// Category for selective recomputation: its output, or an attention's intermediate, is cheap to recompute.
  enum class Cheap : uint8_t { no, norm, activation, attention } cheap = Cheap::no;
  Shape output;
  std::vector<Parameter> parameters;
  std::vector<Kernel> forward, backward_data, backward_weights;
  /// Kept in memory from forward to backward: its inputs, its output, and those of its other tensors (masks,
  /// statistics) marked as kept. A tensor kept by two layers is counted once.
  bool keeps_input = false, keeps_output = false;
  std::vector<OwnTensor> own;
  /// Elementwise forward kernels that recompute the tensors marked `remade`.
  std::vector<Kernel> remade = {};
  /// True when the output is the input's memory (reshape, dropout in evaluation, in-place relu).
  bool in_place = false;
  /// Buffers that are state but not learned (batch-norm running statistics), in elements.
  int64_t buffers = 0;
  /// Elements of a weight that it uses but another layer owns (an output layer tied to the embedding).
  int64_t tied = 0;
  /// With the devices that share the layer, if there are several.
  Join input_join = Join::none, output_join = Join::none;
  /// In the middle of a pass, in issue order.
  std::vector<Exchange> forward_exchanges = {}, backward_exchanges = {};
};

/// Bytes per sample of its kept tensors if passes compute in `size` bytes an element.
int64_t own_kept_bytes(const Lowered& lowered, int64_t size);

struct LayerType {
  std::string_view name;
  std::string_view summary;
  Lowered (*lower)(const LayerInput&);
};

/// Generated from the list in models/CMakeLists.txt.
const Registry<LayerType>& layers_registry();

// Kernel makers shared by the layer types; all sizes in elements, `size` = bytes per element. Every tensor
// is read once and written once unless said otherwise.
Kernel gemm(Pass pass, int64_t batch, int64_t m, int64_t n, int64_t k, int64_t size);
/// Forward reads x and w, backward-data reads dy and w, backward-weights reads x and dy.
Kernel convolution(Pass pass, const ConvShape& shape, int64_t size);
/// Forward reads q, k, v; backward-data (2.5 x the FLOPs: scores are recomputed) reads q, k, v, out and dout.
/// A causal mask halves the FLOPs (Dao 2023, FlashAttention-2, section 4.1). Not fused: the memory traffic of
/// scores depends on the framework and is added by the cost model.
Kernel attention_kernel(Pass pass, int64_t batch, int64_t heads, int64_t kv_heads, int64_t query, int64_t key,
                        int64_t head_dim, bool causal, bool fused, int64_t size);
Kernel elementwise(Pass pass, int64_t count, int64_t inputs, int64_t size, int64_t flops_per_element = 1);
/// Elementwise without arithmetic: concatenation, padding, transposition.
Kernel copy_kernel(Pass pass, int64_t read, int64_t written, int64_t size);
/// Elementwise that sums `count` elements into `results`, e.g. a bias gradient.
Kernel reduction(Pass pass, int64_t count, int64_t results, int64_t size);

}  // namespace tandem::models
