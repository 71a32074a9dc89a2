// SPDX-License-Identifier: Apache-2.0
// Adafactor, as exec/device/cpu/adafactor.cpp says. A block takes a line: a row of a matrix, or a piece of
// what is none. Sums over lines and columns first, then of one block, in a fixed order.
#include "exec/device/cuda/tensors.h"

namespace tandem::exec::cuda {

namespace {

constexpr float kLeastSquare = 1e-30F, kLeastScale = 1e-3F;
constexpr int64_t kPiece = 1024;

/// What a tensor's kernels work on.
struct Factored {
  bool matrix;
  int64_t elements, lines, width;
  const State* state;
  float* p;
  const float* g;
  float *moments, *by_column;  ///< of rows, or of all elements; of columns
  float *sums, *scalars;       ///< [line]; mean of the rows, size of the parameter, rate

  __device__ int64_t begin() const { return static_cast<int64_t>(blockIdx.x) * width; }
  __device__ int64_t end() const { return begin() + width < elements ? begin() + width : elements; }
  /// Of what is no matrix `i` alone counts.
  __device__ float step(const State& s, int64_t i) const {
    const float x = usable(s, g[i]);
    if (!matrix) return x * (1 / sqrtf(moments[i]));
    return x * (1 / sqrtf(moments[blockIdx.x] / scalars[0])) * (1 / sqrtf(by_column[i - begin()]));
  }
};

__device__ float moved(const State& s, float moment, float square) {
  return s.factored_decay * moment + (1 - s.factored_decay) * square;
}

__global__ void factored_lines(Factored f) {
  const State s = *f.state;
  if (skipped(s)) return;
  float sums[2] = {0, 0};
  for (int64_t i = f.begin() + threadIdx.x; i < f.end(); i += blockDim.x) {
    const float x = usable(s, f.g[i]);
    sums[0] += x * x;
    sums[1] += f.p[i] * f.p[i];
    if (!f.matrix) f.moments[i] = moved(s, f.moments[i], x * x + kLeastSquare);
  }
  block_sum(sums);
  if (threadIdx.x != 0) return;
  f.sums[blockIdx.x] = sums[1];
  if (f.matrix)
    f.moments[blockIdx.x] =
        moved(s, f.moments[blockIdx.x], sums[0] / static_cast<float>(f.width) + kLeastSquare);
}

struct FactoredSquare {
  Factored f;
  template <int W>
  __device__ void operator()(int64_t r, int64_t c, float (&out)[W][1]) const {
    const State s = *f.state;
#pragma unroll
    for (int k = 0; k < W; ++k) {
      const float x = usable(s, f.g[r * f.width + c + k]);
      out[k][0] = x * x;
    }
  }
};
struct FactoredColumn {
  Factored f;
  __device__ void operator()(int64_t c, const float (&sum)[1]) const {
    const State s = *f.state;
    if (!skipped(s))
      f.by_column[c] = moved(s, f.by_column[c], sum[0] / static_cast<float>(f.lines) + kLeastSquare);
  }
};

__global__ void factored_sizes(Factored f) {
  float sums[2] = {0, 0};
  for (int64_t r = threadIdx.x; r < f.lines; r += blockDim.x) {
    sums[0] += f.matrix ? f.moments[r] : 0;
    sums[1] += f.sums[r];
  }
  block_sum(sums);
  if (threadIdx.x != 0) return;
  const float weight = sqrtf(sums[1] / static_cast<float>(f.elements));
  f.scalars[0] = sums[0] / static_cast<float>(f.lines);
  f.scalars[1] = weight <= kLeastScale ? kLeastScale : weight;
}

__global__ void factored_steps(Factored f) {
  const State s = *f.state;
  if (skipped(s)) return;
  float sums[1] = {0};
  for (int64_t i = f.begin() + threadIdx.x; i < f.end(); i += blockDim.x) {
    const float step = f.step(s, i);
    sums[0] += step * step;
  }
  block_sum(sums);
  if (threadIdx.x == 0) f.sums[blockIdx.x] = sums[0];
}

__global__ void factored_rate(Factored f) {
  float sums[1] = {0};
  for (int64_t r = threadIdx.x; r < f.lines; r += blockDim.x) sums[0] += f.sums[r];
  block_sum(sums);
  const float size = sqrtf(sums[0] / static_cast<float>(f.elements));
  if (threadIdx.x == 0) f.scalars[2] = f.state->learning_rate * f.scalars[1] / (size <= 1 ? 1 : size);
}

/// `first`: of the tensor, in the update's range.
template <typename H>
__global__ void factored_apply(Factored f, int64_t first, Pieces pieces) {
  const State s = *f.state;
  if (skipped(s)) return;
  const float rate = f.scalars[2];
  const int64_t piece = first_piece<H>(pieces, first + f.begin());
  for (int64_t i = f.begin() + threadIdx.x; i < f.end(); i += blockDim.x)
    write_parameter<H>(pieces, piece, f.p - first, first + i, f.p[i] - rate * f.step(s, i));
}

int64_t lines_of(const UpdatedTensor& t) { return t.rows > 0 ? t.rows : (t.elements + kPiece - 1) / kPiece; }

}  // namespace

template <typename H>
Prepared adafactor(const Call& c) {
  const UpdateCopies copies(c, 3);
  int64_t scratch = 0;
  for (const UpdatedTensor& t : c.tensors) {
    const int64_t lines = lines_of(t);
    const int64_t columns = t.rows > 0 ? ColumnCut(lines, t.elements / lines, 1).scratch(1) : 0;
    scratch = std::max(scratch, lines + 4 + columns);
  }
  return {[=, tensors = c.tensors](const Launch& l) {
            const CopiedRange range = copies.at(l);
            for (const UpdatedTensor& t : tensors) {
              if (t.elements == 0) continue;
              const bool matrix = t.rows > 0;
              const int64_t lines = lines_of(t), width = matrix ? t.elements / lines : kPiece;
              float* const moments = l.operands[2] + t.state;
              const Factored f{matrix,
                               t.elements,
                               lines,
                               width,
                               l.state,
                               l.operands[0] + t.first,
                               l.operands[1] + t.first,
                               moments,
                               moments + t.rows,
                               l.scratch + 4,
                               l.scratch};
              const auto blocks = static_cast<unsigned>(lines);
              const unsigned threads = std::min(row_threads(width), 256U);
              launch(factored_lines, blocks, threads, l.stream, f);
              if (matrix)
                column_sums<1>(ColumnCut(lines, width, 1), false, FactoredSquare{f}, FactoredColumn{f},
                               l.scratch + 4 + lines, l.stream);
              launch(factored_sizes, 1, row_threads(lines), l.stream, f);
              launch(factored_steps, blocks, threads, l.stream, f);
              launch(factored_rate, 1, row_threads(lines), l.stream, f);
              launch(factored_apply<H>, blocks, threads, l.stream, f, t.first, Pieces(range));
            }
            renew_matrices(range, l.operands[0] - range.first, l.stream);
          },
          scratch};
}

template Prepared adafactor<void>(const Call&);
template Prepared adafactor<Bf16>(const Call&);
template Prepared adafactor<Fp16>(const Call&);

}  // namespace tandem::exec::cuda
