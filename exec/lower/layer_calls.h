// SPDX-License-Identifier: Apache-2.0
#pragma once
// What exec/lower/passes makes of a layer: tensors, and calls on them. A LayerCalls is used by one thread,
// the one that lowers the graph.
#include <cstdint>
#include <string_view>

#include "base/registry.h"
#include "exec/lower/call.h"
#include "models/graph.h"

namespace tandem::exec {

/// Where a tensor lives and how long.
enum class TensorKind : uint8_t {
  input,               ///< filled before forward: samples (float) or tokens (int32)
  label,               ///< int32 classes, or float targets of the loss
  activation,          ///< outputs, and what backward needs of them
  gradient,            ///< of activations: scratch of one backward pass
  parameter,           ///< a slice of the flat parameter vector
  frozen,              ///< a slice of the memory of weights that stay as they are
  parameter_gradient,  ///< the slice of the flat gradient vector at the same place
  buffer,              ///< state that is not learned: running statistics; starts at Tensor::initial
  loss,                ///< one float: mean loss of the batch
};

struct Tensor {
  TensorKind kind = TensorKind::activation;
  int64_t elements = 0;
  /// In words of 4 bytes: of the flat vector (parameters and their gradients), of the memory of weights that
  /// stay, of the inputs' buffer (inputs and labels), else of the arena.
  int64_t offset = 0;
  float initial = 0;  ///< buffers only
  bool integer = false;
  uint32_t layer = 0;
  bool half = false;     ///< lies in 2 bytes: activations that layers hand on, and their gradients
  bool passing = false;  ///< only of use within one pass over a chunk: ExecutionGraph::passing()
  int64_t words() const { return half ? (elements + 1) / 2 : elements; }  ///< of 4 bytes
};

inline constexpr TensorId kNoTensor = UINT32_MAX;

/// What devices exchange in the middle of a pass over a layer.
struct ExchangedTensors {
  TensorId from = kNoTensor, to = kNoTensor;  ///< equal where it is changed in place
  uint32_t before = 0;                        ///< after that many of the pass' calls in the layer's list
  /// Of tokens that travel: how many of this device's go to each expert, int32, and how many of each device's
  /// come to each of this one's, [device, expert]. `back`: from the experts to where they came from.
  TensorId counts = kNoTensor, arrived = kNoTensor;
  bool back = false;
  uint32_t awaited = 0;  ///< as `before`: the first call that waits for it
};

/// Of one layer of a slice: what devices exchange; kNoTensor where there is no such tensor.
struct SliceTensors {
  TensorId output = kNoTensor;    ///< sent, received, or summed over the devices that share the layer
  TensorId gradient = kNoTensor;  ///< of the output, whole: what is sent back for a received one
  TensorId arriving = kNoTensor;  ///< of a sent output: the gradient that comes back
  TensorId partial =
      kNoTensor;  ///< sum of the gradients of readers that devices share: to be summed over those
  std::vector<ExchangedTensors> forward = {}, backward = {};  ///< in the middle of these passes, in order
  // Where partners divide the sequence, of all their parts one after another:
  TensorId made = kNoTensor;            ///< what is summed and scattered to be the output
  TensorId made_gradient = kNoTensor;   ///< its gradient, gathered
  TensorId gathered = kNoTensor;        ///< the output, for forward ...
  TensorId gathered_again = kNoTensor;  ///< ... and for the readers' parameters' gradients
  TensorId scattered = kNoTensor;       ///< this device's part of the sum of `partial`
  // Where the layer runs forward again, what stands for these:
  TensorId again = kNoTensor;           ///< the output
  TensorId made_twice = kNoTensor;      ///< made
  TensorId gathered_twice = kNoTensor;  ///< gathered
};

/// Rows of a tensor {time, width} of a batch, as they lie, that follow each other in their sequence.
struct PositionRun {
  int64_t row = 0, position = 0, rows = 0;
};

/// One learned tensor, or one that stays as it is, and how it starts.
struct LearnedTensor {
  TensorId parameter = 0, gradient = 0;  ///< gradient: kNoTensor of one that stays
  uint32_t layer = 0, index = 0;         ///< Graph::layers()[layer].parameters[index], or frozen[index]
  /// Start values: uniform in +-bound (He / Glorot, by fan), or constant.
  float bound = 0, constant = 0;
  /// Of one that stays: where it begins among the values of all these, and the shape of what it is stored as
  /// (StoredShape); none where it is stored as it is.
  int64_t first = 0;
  std::vector<int64_t> stored = {};
};

/// What a layer's builder is handed: its tensors and the lists to fill. exec/lower/passes/*.cpp. Tensors
/// asked for and never written by a call are an error of the builder.
class LayerCalls {
 public:
  virtual ~LayerCalls() = default;
  virtual const Layer& layer() const = 0;
  virtual const Lowered& lowered() const = 0;  ///< for the whole batch
  /// The layer's weights, and whether they are learned. Where they stay as they are, gradient() and calls of
  /// Pass::backward_weights must not be made, and lowered() has no kernels for these.
  const std::vector<Parameter>& weights() const { return learns() ? layer().parameters : layer().frozen; }
  bool learns() const { return layer().frozen.empty(); }
  virtual int64_t batch() const = 0;
  virtual float loss_weight() const = 0;     ///< SliceUse::loss_weight
  virtual int64_t norm_samples() const = 0;  ///< SliceUse::norm_samples
  virtual bool training() const = 0;
  /// Place among the devices that share the layer, 0 where none do.
  virtual uint32_t partner() const = 0;
  virtual uint32_t partners() const = 0;          ///< that share it
  virtual const ModelSlice& sharing() const = 0;  ///< how they do
  virtual uint32_t context() const = 0;           ///< place among the devices that divide each sequence
  /// Features (the last dimension) of that input as all partners have it together, without padding.
  virtual int64_t whole_features(std::size_t input) const = 0;
  virtual const Shape& shape(std::size_t input) const = 0;  ///< of one sample
  virtual bool divides_sequence() const = 0;                ///< over devices
  /// All rows of an input {time, width} that this device has, in order.
  virtual std::vector<PositionRun> positions(std::size_t input) const = 0;
  virtual std::size_t inputs() const = 0;

  virtual TensorId in(std::size_t input) = 0;
  /// The same for the gradients of parameters: partners that divide the sequence gather it again.
  virtual TensorId in_again(std::size_t input) = 0;
  virtual TensorId out() = 0;
  /// The output is the input's memory: a view, or an activation in place. False (a fresh output was made
  /// after all) where another layer still reads the input or needs it for its backward pass.
  virtual bool out_is_in(bool overwrites) = 0;
  virtual bool needs_d_in(std::size_t input) const = 0;  ///< something before it learns
  virtual TensorId d_out() = 0;  ///< gradient of the output: the readers' gradients, already summed
  virtual TensorId d_in(std::size_t input) = 0;       ///< to be written whole
  virtual void d_in_is_d_out(std::size_t input) = 0;  ///< the gradient passes as it is
  /// For layers that take a part of their input: the one gradient tensor that all such readers of this input
  /// write their parts into; `adds` when they must add, since parts may overlap or leave gaps (it is zeroed
  /// before the first).
  virtual TensorId d_in_part(std::size_t input, bool& adds) = 0;
  /// Parameter `index` of the layer, started as said (LearnedTensor).
  virtual TensorId parameter(std::size_t index, float bound, float constant = 0) = 0;
  virtual TensorId gradient(std::size_t index) = 0;
  /// Another layer's parameter (tied weights, Graph::tied_to), to whose gradient that layer adds its own; the
  /// layer's copy of it where another device holds it.
  virtual TensorId tied(int64_t rows, int64_t width) = 0;
  virtual TensorId tied_gradient() = 0;  ///< kNoTensor where it stays as it is
  /// A tied layer has already left its share in this layer's gradient when this one's backward runs.
  virtual bool shared() const = 0;
  /// From forward to backward. `activation`: stored as outputs are.
  virtual TensorId keep(int64_t elements, bool activation = false) = 0;
  /// The same of int32.
  virtual TensorId keep_integers(int64_t elements) = 0;
  /// Within this layer's pass.
  virtual TensorId scratch(int64_t elements, bool activation = false) = 0;
  virtual TensorId buffer(int64_t elements, float initial) = 0;
  virtual TensorId label(int64_t elements, bool integer) = 0;
  virtual TensorId loss() = 0;
  /// The pass goes on when devices have exchanged what `what` names, whose `before` need not be said. In a
  /// backward pass before all that makes parameters' gradients.
  virtual void exchange(Pass pass, ExchangedTensors what) = 0;
  /// The calls so far do not wait for that exchange of the pass, by its number; what follows does.
  virtual void await(Pass pass, std::size_t exchange) = 0;
  /// Appends; `pass` of the call decides the list (backward passes share one, in the order appended).
  virtual void call(Call call) = 0;
};

/// One layer type made executable: a file in exec/lower/passes per family and a word in exec/CMakeLists.txt.
struct LayerExecution {
  std::string_view name;     ///< of the LayerType
  std::string_view summary;  ///< how it is done
  void (*build)(LayerCalls&);
};
/// Generated from the list in exec/CMakeLists.txt.
const Registry<LayerExecution>& passes_registry();

}  // namespace tandem::exec
