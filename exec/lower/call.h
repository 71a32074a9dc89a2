// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a backend is asked to do: the closed set of functions that the layers' passes are made of.
#include <bit>
#include <cstdint>
#include <string_view>
#include <vector>

#include "models/layers/kernel.h"

namespace tandem::exec {

/// Storage: the batch is outermost; a sample of three or more dimensions is stored channels last ({C,H,W}
/// lies as H, W, C), all others row by row. Elements are float, or int32 for tokens and labels.
/// Flattening keeps the storage order. Weights of convolutions lie {out, kernel..., in / groups}, of linear
/// layers {in, out}. In bf16, fp16 and fp8 activations and their gradients
/// lie in 2 bytes (Call::half_operands), all else in 4.
///
/// Operands and `shape` of each function; operands written come first. "+=" adds to what is there.
enum class Function : uint8_t {
  fill,        ///< {y} = scalars[0]; shape {elements}
  copy,        ///< {y, x}; shape {elements}
  sum,         ///< {y, a, b}: y = a + b, y may be a; shape {elements}
  column_sum,  ///< {sums[columns], x}; shape {rows, columns}: the gradient of a bias
  row_sum,     ///< {sums[rows], x}; shape {batch, rows, columns}
  update,      ///< {parameter, gradient, state...[, copies, pieces, matrices]}; shape {elements, index in
               ///< optimizers()[, pieces, matrices, where the first element is in the vector]}; uses
               ///< IterationState and Call::tensors; then renews copies as a CopiedRange says. State: the
               ///< flat vectors, or all of the state that lies tensor by tensor
  average,     ///< {x, m, a[, v]}: parameters, their mean, anchor and velocity (semantics.md 2.6); shape
               ///< {elements, Averaging::Rule}; scalars {rate, weight}; m may be x
  compress,  ///< {message, delta, gradients}: delta += gradients becomes a message and what that leaves out;
             ///< without feedback delta is the gradients; shape by compression_call()
  orthogonalise,  ///< {P and after it Q, delta}: P's columns orthonormal, Q = delta^T P; shape as compress
  decompress,     ///< {gradients, messages, delta}: their sum; PowerSGD's delta -= mean; shape as compress
  gemm,  ///< {c, a, b[, bias[n]]}: c = op(a) op(b) [+ bias]; shape {m, n, k, transpose a, transpose b, 1 for
         ///< +=}
  conv,  ///< {y, x, w[, bias]}; shape ConvShape::pack and 1 for channels last
  conv_backward_data,     ///< {dx, dy, w}; shape as conv
  conv_backward_weights,  ///< {dw, x, dy}; shape as conv
  max_pool,  ///< {y, x, where}; shape as window in exec/lower/passes/pool.cpp; `where`: int32 of each maximum
  max_pool_backward,  ///< {dx, dy, where}
  avg_pool,           ///< {y, x}
  avg_pool_backward,  ///< {dx, dy}
  softmax,            ///< {y, x}; shape {rows, classes}
  softmax_backward,   ///< {dx, y, dy}
  cross_entropy,      ///< {loss, shifts, x, labels}; shape {rows, classes}; label < 0: row ignored; a row's
                  ///< shift: maximum + log(sum of exp(x - maximum)), so that probabilities are exp(x - shift)
  cross_entropy_backward,  ///< {dx, x, shifts, labels}; scalars {weight}: dx = weight times the loss'
                           ///< gradient
  cross_entropy_part,      ///< {numbers, x, labels}; shape ClassesShape: of each row what the others need to
                           ///< know: maximum, sum of exp(x - maximum), the label's x or 0
  cross_entropy_join,      ///< {loss, shifts, numbers, labels}; shape ClassesShape; numbers of all parts
  cross_entropy_part_backward,  ///< {dx, x, shifts, labels}; shape ClassesShape
  mse,                          ///< {loss, a, b}; shape {elements}
  mse_backward,                 ///< {da, a, b}; scalars {weight}: da = weight 2 (a - b) / elements
  unary,                        ///< {y, x}; shape {elements, Unary}; scalars {slope} or {low, high}
  unary_backward,               ///< {dx, dy, kept}: kept is x or y, see Unary; shape and scalars as unary
  dropout,                      ///< {y, x, mask bytes}; shape {elements, layer}; scalars {p}
  dropout_backward,             ///< {dx, dy, mask bytes}
  move,        ///< {y, x}: y[i.y strides] = x[i.x strides]; shape as Strided, two operands; 1 for +=
  product,     ///< {y, a, b}: y = a b, strided; shape as Strided, three operands; 1 for +=
  batch_norm,  ///< {y, x, mean, deviation, running mean, running variance[, scale, shift]}; shape {outer,
               ///< channels, inner}; scalars {epsilon, momentum}; `deviation` holds 1 / sqrt(variance +
               ///< epsilon)
  batch_norm_inference,  ///< {y, x, running mean, running variance[, scale, shift]}; shape and scalars as
                         ///< batch_norm
  batch_norm_sums,       ///< {dscale, dshift, x, dy, mean, deviation}
  batch_norm_backward,   ///< {dx, x, dy, mean, deviation, dscale, dshift[, scale]}; of several devices with a
                         ///< fourth number in its shape: how many, whose sums dscale and dshift then are,
                         ///< and a fifth where batches differ: elements of a channel on all of them
  batch_norm_statistics,  ///< {sums[2, channels], x, running mean}: of x less the running mean, which all
                          ///< devices replicate, and of its square
  batch_norm_shared,      ///< as batch_norm, with the sums of all devices after the running variance; shape
                          ///< {outer, channels, inner, devices[, elements of a channel on all of them]}
  batch_norm_relu,  ///< {y, x, mean, deviation, running mean, running variance[, z][, scale, shift]}: then +
                    ///< z and cut off below 0 and above `high`; shape {outer, channels, inner, 1, 0, 1 with
                    ///< z}; scalars {epsilon, momentum, high}
  batch_norm_relu_sums,      ///< without z {dscale, dshift, x, dy, mean, deviation[, scale, shift]}; with it
                             ///< {dscale, dshift, dz, x, dy, y, mean, deviation}; shape as batch_norm_relu;
                             ///< scalars {high}
  batch_norm_relu_backward,  ///< without z: {dx, x, dy, mean, deviation, dscale, dshift[, scale, shift]}; dz
                             ///< goes to batch_norm_backward; shape {outer, channels, inner}; scalars {high}
  row_norm,  ///< {y, x, statistics[, scale[, shift]]}; shape {outer, groups, space, channels of a group, 1
             ///< for root mean square}: statistics of each (outer, group) over space and channels; scalars
             ///< {epsilon}
  row_norm_sums,      ///< {dscale[, dshift], x, dy, statistics}; shape as row_norm
  row_norm_backward,  ///< {dx, x, dy, statistics[, scale]}; shape as row_norm
  lrn,                ///< {y, x, denominator}; shape {rows, channels, window}; scalars {k, alpha, beta}
  lrn_backward,       ///< {dx, x, y, dy, denominator}
  attention,  ///< {out, q, k, v, log sums[, bias[buckets, heads]]}; shape {batch, heads, kv heads, query,
              ///< key, head size, causal, row of q, row of k and v, offsets of q, k, v[, queries in a sample
              ///< of q, keys in one of k and v, queries in one of out, first of these[, window, buckets[,
              ///< grid, windows across, shift]]]};
              ///< rows and offsets in elements
  attention_backward,       ///< {dq, dk, dv, q, k, v, out, dout, log sums[, bias]}; shape as attention
  attention_bias_backward,  ///< {dbias, q, k, v, out, dout, log sums, bias}; shape as attention
  attention_sinks,  ///< {out, log sums, sinks}: a score of each head takes part in the softmax, with no
                    ///< value; shape {batch, heads, query, head size}
  attention_sinks_backward,  ///< {dsinks, sinks, log sums, out, dout}; shape as attention_sinks
  attention_merge,  ///< {out, log sums, block, log sums of block}: attention to more keys joins that so far;
                    ///< shape {batch, heads, query, head size, queries of out, first of them in block}
  rotary,     ///< {y, x}; shape {batch, time, vectors, head size, row, offset, 1 to turn back[, rows of a
              ///< sample, position of the first]}; y may be x
  recurrent,  ///< {out, gates, cells, pre, weight, bias}; shape {batch, time, hidden, Cell, row of out,
              ///< offset, 1 to run backwards in time}; pre [batch, time, gates x hidden] = W x; bias {2,
              ///< gates x hidden}
  recurrent_backward,  ///< {dpre, drecurrent, dout, gates, cells, out, weight, bias}; shape as recurrent
  embedding,  ///< {y, table, ids}; shape {tokens, width, rows, first row}: zeros for ids of other rows
  embedding_backward,  ///< {dtable, dy, ids}; shape {tokens, width, rows, 1 for +=, first row}
  restore,             ///< {weight, stored}; shape StoredShape: numbers from fewer bits
  route,  ///< {weights[rows, active], choices, places, counts[experts], scores, logits[rows, experts]}; shape
          ///< RouteShape; scalars {scale}. Of each row's choices, all int32: which expert, where its token
          ///< lies among all that go to experts (-1: dropped), and how many go to each expert
  route_backward,    ///< {dlogits, dweights, choices, scores}; shape and scalars as route
  dispatch,          ///< {y, x[rows, width], places}; shape DispatchShape: y[place] = x of its row
  combine,           ///< {y[rows, width], x, places[, weights]}; shape DispatchShape: sums over the choices
  combine_backward,  ///< {dx, dweights, dy, x, places, weights}; shape DispatchShape
  expert_gemm,       ///< {c, a, b, counts[, bias]}: of each expert's rows c = a op(b of it) [+ its bias];
                     ///< shape {ExpertGroups, n, k, transpose b, 1 for +=, row and offset of bias}
  expert_gemm_weights,  ///< {db, a, dc, counts}: of each expert db = a^T dc over its rows; shape
                        ///< {ExpertGroups, n, k}: db is [k, n]
  expert_column_sum,    ///< {sums, x, counts}: over each expert's rows; shape {ExpertGroups, columns, row and
                        ///< offset of sums}
  gate,  ///< {y, gate, up, counts}: swish(gate) up; shape {ExpertGroups, columns}; scalars {limit}: 0, or
         ///< where gates and factors are clamped (GateOf)
  gate_backward,  ///< {dgate, dup, dy, gate, up, counts}; shape and scalars as gate
  end
};

/// What `unary` computes; its gradient needs y (up to tanh) or x.
enum class Unary : uint8_t {
  relu,
  relu6,
  leaky_relu,
  clip,
  sigmoid,
  tanh,
  gelu,
  swish,
  softplus,
  hard_sigmoid,
  hard_swish,
  relu2
};
/// Cells of `recurrent`, with 1, 4 and 3 gates (cuDNN's equations and order: LSTM i, f, g, o; GRU r, z, n).
enum class Cell : uint8_t { rnn, lstm, gru };

/// Shape of `move` and `product`: dimensions, their sizes, then each operand's strides, each operand's
/// offset, and the flag. A stride of 0 repeats an input, or sums into an output (with +=).
struct Strided {
  std::vector<int64_t> sizes;
  std::vector<std::vector<int64_t>> strides;  ///< [operand][dimension]
  std::vector<int64_t> offsets;               ///< [operand]
  bool adds = false;
  std::vector<int64_t> pack() const;
  static Strided unpack(const std::vector<int64_t>& shape, std::size_t operands);
  /// Without dimensions of one element, and with neighbours joined that lie one after another in every
  /// operand. The operand that repeats least, which is the largest, is walked in its order in memory.
  Strided simplified() const;
  static constexpr std::size_t kMostDims = 9;  ///< a shape has at most 8, and the batch
};
std::string_view name(Function function);

/// One of the tensors of an update.
struct UpdatedTensor {
  int64_t first = 0, elements = 0;  ///< in the update's range
  int64_t rows = 0;                 ///< Parameter::rows
  int64_t state = 0;                ///< word of the state's memory where its own begins; 0 of a flat one
};

/// Index into ExecutionGraph::tensors().
using TensorId = uint32_t;

/// One piece of work of one layer's pass.
struct Call {
  Function function = Function::fill;
  Pass pass = Pass::forward;
  std::vector<TensorId> operands;
  std::vector<int64_t> shape;   ///< sizes and choices; meaning fixed per function
  std::vector<float> scalars;   ///< epsilon, slope, probability ...
  std::vector<Kernel> kernels;  ///< of Graph::lower that it realises: what a cost model prices it as
  uint32_t layer = 0;
  /// Per operand: its elements where they lie in 2 bytes, 0 where they are of 4 bytes. Empty: all of 4 bytes.
  std::vector<int64_t> half_operands;
  uint32_t gradients =
      0;  ///< bit k: operand k is an activation's gradient; only said where it lies in 2 bytes
  /// Bit k: after the operands a launch has copies of these, parameters that stay in 4 bytes, in the format
  /// that the device multiplies (Backend::copies), one for each bit.
  uint32_t copied = 0;
  bool has_copy(std::size_t operand) const { return (copied >> operand & 1U) != 0; }
  /// Where a launch has it.
  std::size_t copy_of(std::size_t operand) const {
    return operands.size() + static_cast<std::size_t>(std::popcount(copied & ((1U << operand) - 1)));
  }
  /// Of an update by an optimiser that works on whole tensors (Optimizer::by_tensor): those that it updates.
  std::vector<UpdatedTensor> tensors;
  bool half(std::size_t operand) const {
    return operand < half_operands.size() && half_operands[operand] > 0;
  }
};

/// A part of a vector of floats of which a copy in 2 bytes is kept, as it lies in the device's memory.
struct CopyPiece {
  int64_t first = 0, elements = 0;  ///< of the vector
  int64_t place = 0;                ///< where the copy begins: in words of 4 bytes, a multiple of 64
};

/// A matrix in such a vector, kept in numbers of 1 byte: as it lies, then transposed, then the factor that
/// makes them the matrix' own and what the next ones are scaled by (exec/device/cuda/fp8.cu).
struct CopiedMatrix {
  int64_t first = 0, rows = 0, columns = 0;                            ///< both multiples of 16
  int64_t place = 0;                                                   ///< as above
  constexpr int64_t transposed() const { return rows * columns / 4; }  ///< words after `place` ...
  constexpr int64_t factor() const { return 2 * transposed(); }
  constexpr int64_t scale() const { return factor() + 64; }
  constexpr int64_t words() const { return scale() + 64; }
};
/// A range of such a vector and the copies of what is in it, all in the device's memory.
struct CopiedRange {
  int64_t first = 0, elements = 0;  ///< of the vector
  float *copies = nullptr, *pieces = nullptr, *matrices = nullptr;
  int64_t piece_count = 0;   ///< of CopyPiece, in the vector's order: those that have part in the range
  int64_t matrix_count = 0;  ///< of CopiedMatrix, which the range has whole
  bool empty() const { return piece_count + matrix_count == 0; }
};

/// States that an asynchronous device keeps at once (DeviceSession::set_state).
inline constexpr uint32_t kStateSlots = 4;

/// What changes from iteration to iteration.
struct IterationState {
  uint64_t seed = 1;  ///< of random draws (dropout): with `iteration` and the instance
  uint32_t instance = 0, iteration = 0;
  float learning_rate = 0;
  float gradient_scale = 1;  ///< on the gradient before it is used: 1 / workers turns a sum into a mean
  int64_t updates = 1;       ///< of these parameters, this one included (Adam's bias correction)
  uint32_t slot = 0;         ///< where an asynchronous device keeps it
  /// Of the iteration's, from 0: `iteration` is so much more than that of the first. What a slot keeps is of
  /// the first: all of an iteration's launches see it, and are told this one themselves.
  uint32_t micro = 0;
};

}  // namespace tandem::exec
