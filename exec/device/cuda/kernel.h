// SPDX-License-Identifier: Apache-2.0
#pragma once
// The table of CUDA kernels: every .cu file adds its functions to it. The same files, compiled as C++ for an
// emulated device, are how the tests hold them to the CPU's results without a GPU.
#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>

#include "base/precision.h"
#include "exec/lower/call.h"

struct CUstream_st;  // CUDA's own name of cudaStream_t

namespace tandem::exec::cuda {

using Stream = CUstream_st*;

/// What multiplies the loss in fp16, where small gradients would vanish: one a device, in its memory.
struct LossScale {
  float scale = 65536;
  int32_t good = -1;      ///< iterations since it last changed
  uint32_t overflow = 0;  ///< some gradient of this iteration was not finite
  uint32_t skips = 0;     ///< so nothing is updated in it
};

/// IterationState as kernels read it, in device memory: a captured graph sees what is there when it runs.
struct State {
  uint64_t seed = 1;
  uint32_t instance = 0, iteration = 0;
  float learning_rate = 0, gradient_scale = 1;
  float adam_rate = 0;        ///< learning rate / (1 - 0.9^updates)
  float adam_unbias = 1;      ///< 1 / sqrt(1 - 0.999^updates)
  float adam_mean = 1;        ///< 1 / (1 - 0.9^updates)
  float factored_decay = 0;   ///< 1 - updates^-0.8
  float loss_scale = 1;       ///< of the losses' gradients
  LossScale* loss = nullptr;  ///< fp16 only: an update leaves what has no finite gradient, and says so there
};
State device_state(const IterationState& state);

/// One launch of a prepared call. Pointers are the device's.
struct Launch {
  float* const* operands;
  const State* state;
  float*
      scratch;  ///< of Prepared::scratch elements at least, 256-byte aligned, free between launches of a lane
  Stream stream;
  float* kept = nullptr;  ///< of Prepared::kept elements, zero at first, this prepared call's alone
  uint32_t micro = 0;     ///< IterationState::micro, which `state` does not have
};
/// Enqueues and returns; allocates nothing.
struct Prepared {
  std::function<void(const Launch&)> run;
  int64_t scratch = 0;  ///< floats
  int64_t kept = 0;     ///< floats that stay as they are between launches
};
using Prepare = Prepared (*)(const Call& call);

/// How a function is made: on operands of 4 bytes; and, where that is worth a kernel, with some in 2.
struct Maker {
  Prepare plain = nullptr, bf16 = nullptr, fp16 = nullptr;
  uint32_t (*half_operands)(const Call& call) = nullptr;  ///< bit k: operand k is what these take in 2 bytes
};
/// Bits of the operands that the call has in 2 bytes.
uint32_t half_mask(const Call& call);
template <int... operands>
uint32_t half_operands(const Call&) {
  return ((1U << operands) | ...);
}

using Table = std::array<Maker, static_cast<std::size_t>(Function::end)>;
inline void set(Table& table, Function function, Prepare plain, Prepare bf16 = nullptr,
                Prepare fp16 = nullptr, uint32_t (*half_operands)(const Call&) = nullptr) {
  table[static_cast<std::size_t>(function)] = {plain, bf16, fp16, half_operands};
}

void add_basic(Table& table);        // basic.cu: fill, copy, sum, column and row sums, update
void add_elementwise(Table& table);  // elementwise.cu: activations, dropout
void add_strided(Table& table);      // strided.cu: move, product
void add_batch_norm(Table& table);   // batch_norm.cu
void add_row_norm(Table& table);     // row_norm.cu: and lrn
void add_pool(Table& table);         // pool.cu
void add_softmax(Table& table);      // softmax.cu: and losses
void add_attention(Table& table);    // attention.cu
void add_log_sums(Table& table);     // log_sums.cu: attention's blocks and sinks
void add_rotary(Table& table);       // rotary.cu
void add_recurrent(Table& table);    // recurrent.cu
void add_embedding(Table& table);    // embedding.cu: and weights in fewer bits
void add_experts(Table& table);      // experts.cu
void add_compression(Table& table);  // compression.cu: gradients on their way in another form
void add_fallback(Table& table);     // fallback.cu: products and convolutions without a library

/// All of them, by our own kernels alone; every function has an entry.
const Table& own_kernels();
/// By our own kernels; through copies in 4 bytes where there is none for the operands that are in 2. `half`:
/// the format of these, bf16 or fp16.
Prepared prepare_own(const Call& call, Precision half);
/// Steps of other calls, which need no scratch but the column sum: strided.cu's move between tensors that are
/// stored in one format, fp32, bf16 or fp16; and {sums[columns], x}.
Prepared prepare_move(const Strided& move, Precision stored);  // half.cu
Prepared prepare_column_sum(int64_t rows, int64_t columns);    // basic.cu
/// Enqueues such a step on these operands.
inline void run_step(const Prepared& step, std::initializer_list<float*> operands, Launch l,
                     float* scratch = nullptr) {
  l.operands = operands.begin();
  l.scratch = scratch;
  step.run(l);
}
/// The call on copies in 4 bytes of its operands in 2, which lie in scratch; `prepare` is asked for it so.
Prepared upcast(const Call& call, Precision half, const std::function<Prepared(const Call& call)>& prepare);

/// c[m, n] = op(a) op(b) + beta c, row by row with these leading dimensions, on `stream`: what recurrent
/// steps and attention call. The product of the session that prepares in this thread, or our own. A batch of
/// them, at most 65535, lies at these strides.
struct Product {
  bool transpose_a = false, transpose_b = false;
  int64_t m = 0, n = 0, k = 0, lda = 0, ldb = 0, ldc = 0;
  float beta = 0;
  int64_t batch = 1, stride_a = 0, stride_b = 0, stride_c = 0;
  Product() = default;
  explicit Product(const Call& gemm);  ///< fallback.cu
};
using RunProduct = std::function<void(float* c, const float* a, const float* b, const Launch&)>;
using MakeProduct = std::function<RunProduct(const Product&)>;
MakeProduct& make_product();
RunProduct fallback_product(const Product& product);

/// On any lane, for DeviceSession.
void accumulate(float* to, const float* from, int64_t elements, Stream stream);
/// The same of numbers of 2 bytes: bf16 or fp16.
void accumulate_half(void* to, const void* from, Precision half, int64_t numbers, Stream stream);
void scale(float* values, float factor, int64_t elements, Stream stream);
/// `loss`: null but in fp16. `begins`: an iteration begins, for which it is halved or doubled first.
void set_state(State* slot, const State& state, LossScale* loss, bool begins, Stream stream);
/// DeviceSession::judge in fp16.
void judge(const float* gradients, const State* state, int64_t elements, Stream stream);
/// DeviceSession::unscale in fp16.
void unscale(float* gradients, const State* state, bool alone, int64_t elements, Stream stream);
/// To a convolution's output: bias of its channel, which lie innermost (`last`) or before the positions.
/// Both are stored as bf16, fp16 or, by any other format, float.
void add_bias(void* y, const void* bias, Precision stored, int64_t batch, int64_t channels, int64_t positions,
              bool last, Stream stream);
/// to[i] = from[i]; `half`: bf16 or fp16. `scaled`: narrowed numbers are times its loss scale.
void upcast(float* to, const void* from, Precision half, int64_t elements, Stream stream,
            const State* scaled = nullptr);
void narrow(void* to, const float* from, Precision half, int64_t elements, Stream stream,
            const State* scaled = nullptr);
/// DeviceSession::renew; `half`: bf16 or fp16.
void renew(const CopiedRange& range, const float* vector, Precision half, Stream stream);
void renew_matrices(const CopiedRange& range, const float* vector, Stream stream);  ///< of it those in fp8
/// Rows that begin `stride` elements after one another.
struct Matrix {
  void* at;
  int64_t rows, columns, stride;
};
/// Elements of 2 or 4 bytes; what `from` has not becomes 0.
void copy_rows(const Matrix& to, const Matrix& from, std::size_t bytes, Stream stream);

/// Throws DeviceError when the last launch was refused.
void check_launch();

}  // namespace tandem::exec::cuda
