#pragma once
// What a backend is asked to do: the closed set of functions that the layers' passes are made of. Floor 3.
#include <cstdint>
#include <string_view>
#include <vector>

#include "models/kernel.h"

namespace tandem {

/// Storage: the batch is outermost; a sample of three or more dimensions is stored channels last ({C,H,W} lies
/// as H, W, C), all others row by row. All elements are 4 bytes: float, or int32 for tokens and labels.
/// Flattening keeps the storage order. Weights of convolutions lie {out, kernel..., in / groups}, of linear
/// layers {in, out}.
///
/// Operands and `shape` of each function; operands written come first. "+=" adds to what is there.
enum class Function : uint8_t {
  // exec/layers/{conv,linear,pool}.cpp
  gemm,  ///< {c, a, b[, bias]}: c[m,n] = op(a) op(b) (+ bias[n]); shape {batch, m, n, k, transpose a, transpose b, accumulate}
  conv,                   ///< {y, x, w[, bias]}; shape ConvShape::pack
  conv_backward_data,     ///< {dx, dy, w}
  conv_backward_weights,  ///< {dw, x, dy}
  column_sum,             ///< {sums[columns], x}; shape {rows, columns}: gradient of a bias
  // generic
  fill,  ///< {y} = scalars[0]; shape {elements}
  copy,  ///< {y, x}; shape {elements}
  sum,   ///< {y, a, b}: y = a + b; shape {elements}; y may be a
  update,  ///< {parameter, gradient, state...}; shape {elements, optimizer index in optimizers()}; uses Step
  end  ///< number of functions
};
std::string_view name(Function function);

/// Index into Network::tensors().
using TensorId = uint32_t;

/// One piece of work of one layer's pass.
struct Call {
  Function function = Function::fill;
  Pass pass = Pass::forward;
  std::vector<TensorId> operands;
  std::vector<int64_t> shape;  ///< sizes and choices; meaning fixed per function
  std::vector<float> scalars;  ///< epsilon, slope, probability ...
  std::vector<Kernel> kernels;  ///< of Graph::lower that it realises: what a cost model prices it as
  uint32_t layer = 0;
};

/// What changes from iteration to iteration.
struct Step {
  uint64_t seed = 1;        ///< of random draws (dropout): with `iteration` and the instance
  uint32_t instance = 0, iteration = 0;
  float learning_rate = 0;
  float gradient_scale = 1;  ///< on the gradient before it is used: 1 / workers turns a sum into a mean
  int64_t updates = 1;       ///< of these parameters, this one included (Adam's bias correction)
};

}  // namespace tandem
