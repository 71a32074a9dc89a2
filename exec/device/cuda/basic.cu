// SPDX-License-Identifier: Apache-2.0
// Fills, copies, sums and optimiser updates.
#include <type_traits>

#include "exec/device/cuda/pieces.h"
#include "exec/device/cuda/storage.h"
#include "exec/device/cuda/tensors.h"
#include "models/optimizer.h"
#include "schemes/program/program.h"

namespace tandem::exec::cuda {

namespace {

struct Constant {
  float value;
  __device__ float operator()(float) const { return value; }
};
/// The gradient that a model without a loss begins with.
struct Seed {
  float value;
  const State* state;
  __device__ float operator()(float) const { return value * state->loss_scale; }
};
struct Same {
  __device__ float operator()(float x) const { return x; }
};
struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Scaled {
  float factor;
  __device__ float operator()(float x) const { return factor * x; }
};

template <typename T>
Prepared fill(const Call& c) {
  const int64_t n = c.shape[0];
  const float value = c.scalars.at(0);
  const bool seed = c.pass == Pass::backward_data && value != 0;
  return {[=](const Launch& l) {
    T* y = operand<T>(l, 0);
    if (seed)
      map<T>(n, Seed{value, l.state}, y, y, l.stream);
    else
      map<T>(n, Constant{value}, y, y, l.stream);
  }};
}

template <typename T>
Prepared copy(const Call& c) {
  const int64_t n = c.shape[0];
  return {[=](const Launch& l) { map<T>(n, Same{}, operand<T>(l, 0), operand<T>(l, 1), l.stream); }};
}
/// From or to 2 bytes, or both.
template <typename H>
Prepared copy_half(const Call& c) {
  const int64_t n = c.shape[0];
  constexpr Precision half = kStored<H>;
  if (c.half(0) && c.half(1)) return copy<H>(c);
  if (c.half(0)) return {[=](const Launch& l) { narrow(l.operands[0], l.operands[1], half, n, l.stream); }};
  return {[=](const Launch& l) { upcast(l.operands[0], l.operands[1], half, n, l.stream); }};
}

template <typename T>
Prepared sum(const Call& c) {
  const int64_t n = c.shape[0];
  return {[=](const Launch& l) {
    map2<T>(n, Sum{}, operand<T>(l, 0), operand<T>(l, 1), operand<T>(l, 2), l.stream);
  }};
}

/// Element (row, column) of a matrix.
template <typename T>
struct Element {
  const T* x;
  int64_t columns;
  template <int W>
  __device__ void operator()(int64_t r, int64_t c, float (&out)[W][1]) const {
    float v[W];
    load_neighbours(x + r * columns + c, v);
#pragma unroll
    for (int k = 0; k < W; ++k) out[k][0] = v[k];
  }
};
struct Write {
  float* sums;
  __device__ void operator()(int64_t c, const float (&v)[1]) const { sums[c] = v[0]; }
};

template <typename T>
Prepared column_sum(const Call& c) {
  const ColumnCut cut(c.shape[0], c.shape[1], 1);
  return {[=](const Launch& l) {
            const T* x = operand<T>(l, 1);
            column_sums<1>(cut, contiguous_columns(cut, x), Element<T>{x, cut.columns}, Write{l.operands[0]},
                           l.scratch, l.stream);
          },
          cut.scratch(1)};
}

template <typename T>
__global__ void row_sum_kernel(int64_t batch, int64_t rows, int64_t columns, float* sums, const T* x) {
  const int64_t row = blockIdx.x;
  float total[1] = {0};
  for (int64_t i = threadIdx.x; i < batch * columns; i += blockDim.x)
    total[0] += load(x + (i / columns * rows + row) * columns + i % columns);
  block_sum(total);
  if (threadIdx.x == 0) sums[row] = total[0];
}

template <typename T>
Prepared row_sum(const Call& c) {
  const int64_t batch = c.shape[0], rows = c.shape[1], columns = c.shape[2];
  return {[=](const Launch& l) {
    launch(row_sum_kernel<T>, static_cast<unsigned>(rows), row_threads(batch * columns), l.stream, batch,
           rows, columns, l.operands[0], operand<T>(l, 1));
  }};
}

// The rules and constants are those of exec/device/cpu/basic.cpp. kStates: numbers per element besides its
// parameter.
struct Sgd {
  static constexpr int kStates = 0;
  __device__ void operator()(const State& s, float& p, float g, float&, float&) const {
    p -= s.learning_rate * s.gradient_scale * g;
  }
};
struct Momentum {
  static constexpr int kStates = 1;
  __device__ void operator()(const State& s, float& p, float g, float& v, float&) const {
    v = 0.9F * v + s.gradient_scale * g;
    p -= s.learning_rate * v;
  }
};
struct Adam {
  static constexpr int kStates = 2;
  float decay;
  __device__ void operator()(const State& s, float& p, float g, float& m, float& v) const {
    const float x = s.gradient_scale * g;
    m = 0.9F * m + 0.1F * x;
    v = 0.999F * v + 0.001F * x * x;
    p = (1 - s.learning_rate * decay) * p - s.adam_rate * m / (sqrtf(v) * s.adam_unbias + 1e-8F);
  }
};
struct RmsProp {
  static constexpr int kStates = 1;
  __device__ void operator()(const State& s, float& p, float g, float& v, float&) const {
    const float x = s.gradient_scale * g;
    v = 0.99F * v + 0.01F * x * x;
    p -= s.learning_rate * x / (sqrtf(v) + 1e-8F);
  }
};

/// Of W elements from that one on: all is read before anything is written, so that the reads wait for memory
/// together. H: of the copies, void without.
template <typename H, int W, typename Rule>
__device__ void update_neighbours(Rule rule, const State& s, int64_t i, float* p, const float* g,
                                  float* first, float* second, const Pieces& pieces) {
  float parameter[W], gradient[W], a[W] = {}, b[W] = {};
  load_neighbours(p + i, parameter);
  load_neighbours(g + i, gradient);
  if constexpr (Rule::kStates > 0) load_neighbours(first + i, a);
  if constexpr (Rule::kStates > 1) load_neighbours(second + i, b);
  int64_t piece = 0;
  if constexpr (!std::is_void_v<H>) piece = pieces.find(i);
#pragma unroll
  for (int k = 0; k < W; ++k) {
    if (s.loss != nullptr && !finite(gradient[k]))
      s.loss->overflow = 1;
    else
      rule(s, parameter[k], gradient[k], a[k], b[k]);
  }
  store_neighbours(p + i, parameter);
  if constexpr (!std::is_void_v<H>) pieces.store<H>(piece, i, parameter);
  if constexpr (Rule::kStates > 0) store_neighbours(first + i, a);
  if constexpr (Rule::kStates > 1) store_neighbours(second + i, b);
}

/// Packs from element `head` on; elements before and after them one by one.
template <typename H, typename Rule>
__global__ void update_kernel(int64_t n, int64_t head, Rule rule, const State* state, float* p,
                              const float* g, float* first, float* second, Pieces pieces) {
  constexpr int W = kWide<float>;
  const State s = *state;
  if (s.loss != nullptr && s.loss->skips != 0) return;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x, packed = (n - head) / W * W;
  for (int64_t i = head + global_index() * W; i < head + packed; i += stride * W)
    update_neighbours<H, W>(rule, s, i, p, g, first, second, pieces);
  for (int64_t k = global_index(); k < n - packed; k += stride) {
    const int64_t i = k < head ? k : k + packed;
    update_neighbours<H, 1>(rule, s, i, p, g, first, second, pieces);
  }
}

/// Elements in front of the first pack: all if the vectors have different alignment. Slices of flat vectors
/// begin at any multiple of 4 bytes, the same in each.
int64_t before_packs(int64_t n, float* const* vectors, std::size_t count) {
  const auto into = [](const float* p) { return reinterpret_cast<uintptr_t>(p) % 16; };
  const bool alike =
      std::all_of(vectors, vectors + count, [&](auto* v) { return into(v) == into(*vectors); });
  return alike ? std::min(n, static_cast<int64_t>((16 - into(*vectors)) % 16 / sizeof(float))) : n;
}

template <typename H, typename Rule>
Prepared update_by(Rule rule, const Call& c) {
  constexpr int states = Rule::kStates;
  const int64_t n = c.shape[0];
  const bool copies = c.shape.size() > 2;
  CopiedRange range;
  if (copies) {
    range.elements = n;
    range.piece_count = c.shape[2];
    range.matrix_count = c.shape[3];
    range.first = c.shape[4];
  }
  return {[=](const Launch& l) {
    if (n == 0) return;
    CopiedRange placed = range;
    if (copies) {
      placed.copies = l.operands[2 + states];
      placed.pieces = l.operands[3 + states];
      placed.matrices = l.operands[4 + states];
    }
    launch(update_kernel<H, Rule>, std::min(4096U, blocks_for(n, kThreads * kWide<float>)), kThreads,
           l.stream, n, before_packs(n, l.operands, 2 + states), rule, l.state, l.operands[0], l.operands[1],
           states > 0 ? l.operands[2] : nullptr, states > 1 ? l.operands[3] : nullptr, Pieces(placed));
    renew_matrices(placed, l.operands[0] - placed.first, l.stream);
  }};
}

template <typename H>
Prepared update(const Call& c) {
  const std::string_view rule = optimizers().at(static_cast<std::size_t>(c.shape[1])).name;
  if (rule == "sgd") return update_by<H>(Sgd{}, c);
  if (rule == "momentum") return update_by<H>(Momentum{}, c);
  if (rule == "adam") return update_by<H>(Adam{0}, c);
  if (rule == "adamw" || rule == "adamw-paged") return update_by<H>(Adam{0.01F}, c);
  if (rule == "lamb") return lamb<H>(c);
  if (rule == "adafactor") return adafactor<H>(c);
  if (rule == "adamw-8bit" || rule == "adamw-8bit-paged") return adamw_8bit<H>(c);
  TANDEM_CHECK(rule == "rmsprop");
  return update_by<H>(RmsProp{}, c);
}

// As in exec/device/averaging.cpp.
__global__ void outer_kernel(int64_t n, bool nesterov, float rate, float weight, float* x, const float* m,
                             float* a, float* v) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = global_index(); i < n; i += stride) {
    const float moved = m[i] - a[i];
    float step = moved;
    if (v != nullptr) {
      v[i] = weight * v[i] + moved;
      step = nesterov ? moved + weight * v[i] : v[i];
    }
    a[i] += rate * step;
    x[i] = a[i];
  }
}
__global__ void elastic_kernel(int64_t n, float rate, float weight, float* x, const float* m, float* a) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = global_index(); i < n; i += stride) {
    const float moved = m[i] - a[i];
    if (weight != 0) x[i] += weight * (a[i] - x[i]);
    if (rate != 0) a[i] += rate * moved;
  }
}

__global__ void movement_kernel(int64_t n, float* x, const float* a) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = global_index(); i < n; i += stride) x[i] -= a[i];
}

Prepared average(const Call& c) {
  const int64_t n = c.shape[0];
  const auto rule = static_cast<Averaging::Rule>(c.shape[1]);
  const float rate = c.scalars[0], weight = c.scalars[1];
  return {[=](const Launch& l) {
    if (n == 0) return;
    const unsigned blocks = std::min(4096U, blocks_for(n));
    if (rule == Averaging::Rule::elastic)
      launch(elastic_kernel, blocks, kThreads, l.stream, n, rate, weight, l.operands[0], l.operands[1],
             l.operands[2]);
    else if (rule == Averaging::Rule::movement)
      launch(movement_kernel, blocks, kThreads, l.stream, n, l.operands[0], l.operands[2]);
    else
      launch(outer_kernel, blocks, kThreads, l.stream, n, rule == Averaging::Rule::nesterov, rate, weight,
             l.operands[0], l.operands[1], l.operands[2], weight != 0 ? l.operands[3] : nullptr);
  }};
}

constexpr int kGoodSteps = 2000;
constexpr float kMostScale = 0x1p24F;

/// PyTorch's rule (torch.amp.GradScaler): half of it after an overflow, twice as much after 2000 iterations
/// without one; here between 1 and 2^24.
__device__ void adapt(LossScale& loss) {
  loss.skips = 0;
  if (loss.overflow != 0) {
    loss.scale = fmaxf(1, loss.scale / 2);
    loss.good = loss.overflow = 0;
  } else if (++loss.good == kGoodSteps) {
    loss.scale = fminf(kMostScale, loss.scale * 2);
    loss.good = 0;
  }
}
__global__ void set_state_kernel(State* slot, State state, LossScale* loss, bool begins) {
  if (loss != nullptr) {
    if (begins) adapt(*loss);
    state.loss = loss;
    state.loss_scale = loss->scale;
  }
  *slot = state;
}

/// Scales are powers of two: nothing is rounded, but what becomes subnormal.
__global__ void unscale_kernel(int64_t n, const State* state, float* g, bool alone) {
  const float back = 1 / state->loss_scale;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
#pragma unroll 4
  for (int64_t i = global_index(); i < n; i += stride) {
    float v = g[i] * back;
    if (!finite(v)) {
      state->loss->overflow = 1;
      if (alone) v = 0;
    }
    g[i] = v;
  }
}

__global__ void judge_kernel(int64_t n, const State* state, const float* g) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
#pragma unroll 4
  for (int64_t i = global_index(); i < n; i += stride) {
    if (!finite(g[i])) state->loss->overflow = state->loss->skips = 1;
  }
}

}  // namespace

State device_state(const IterationState& s) {
  const auto t = static_cast<double>(s.updates);
  State out;
  out.seed = s.seed;
  out.instance = s.instance;
  out.iteration = s.iteration;
  out.learning_rate = s.learning_rate;
  out.gradient_scale = s.gradient_scale;
  out.adam_rate = static_cast<float>(static_cast<double>(s.learning_rate) / (1 - std::pow(0.9, t)));
  out.adam_mean = static_cast<float>(1 / (1 - std::pow(0.9, t)));
  out.factored_decay = static_cast<float>(1 - std::pow(t, -0.8));
  out.adam_unbias = static_cast<float>(1 / std::sqrt(1 - std::pow(0.999, t)));
  return out;
}

void accumulate(float* to, const float* from, int64_t elements, Stream stream) {
  map2(elements, Sum{}, to, static_cast<const float*>(to), from, stream);
}
void accumulate_half(void* to, const void* from, Precision half, int64_t numbers, Stream stream) {
  const auto add = [&](auto* sums) {
    map2(numbers, Sum{}, sums, sums, static_cast<decltype(sums)>(const_cast<void*>(from)), stream);
  };
  TANDEM_CHECK(half == Precision::bf16 || half == Precision::fp16);
  half == Precision::bf16 ? add(static_cast<Bf16*>(to)) : add(static_cast<Fp16*>(to));
}
void scale(float* values, float factor, int64_t elements, Stream stream) {
  map(elements, Scaled{factor}, values, static_cast<const float*>(values), stream);
}
void set_state(State* slot, const State& state, LossScale* loss, bool begins, Stream stream) {
  launch(set_state_kernel, 1, 1, stream, slot, state, loss, begins);
}
void judge(const float* gradients, const State* state, int64_t elements, Stream stream) {
  launch(judge_kernel, std::min(4096U, blocks_for(elements)), kThreads, stream, elements, state, gradients);
}
void unscale(float* gradients, const State* state, bool alone, int64_t elements, Stream stream) {
  launch(unscale_kernel, std::min(4096U, blocks_for(elements)), kThreads, stream, elements, state, gradients,
         alone);
}

void add_basic(Table& t) {
  set(t, Function::fill, fill<float>, fill<Bf16>, fill<Fp16>, half_operands<0>);
  set(t, Function::copy, copy<float>, copy_half<Bf16>, copy_half<Fp16>, half_mask);
  set(t, Function::sum, sum<float>, sum<Bf16>, sum<Fp16>, half_operands<0, 1, 2>);
  set(t, Function::column_sum, column_sum<float>, column_sum<Bf16>, column_sum<Fp16>, half_operands<1>);
  set(t, Function::row_sum, row_sum<float>, row_sum<Bf16>, row_sum<Fp16>, half_operands<1>);
  set(t, Function::update, update<void>, update<Bf16>, update<Fp16>, half_mask);
  set(t, Function::average, average);
}

Prepared prepare_column_sum(int64_t rows, int64_t columns) {
  Call call;
  call.shape = {rows, columns};
  return column_sum<float>(call);
}

const Table& own_kernels() {
  static const Table table = [] {
    Table t{};
    for (const auto add : {add_basic, add_elementwise, add_strided, add_batch_norm, add_row_norm, add_pool,
                           add_softmax, add_attention, add_log_sums, add_rotary, add_recurrent, add_embedding,
                           add_experts, add_compression, add_fallback}) {
      add(t);
    }
    return t;
  }();
  return table;
}

}  // namespace tandem::exec::cuda
