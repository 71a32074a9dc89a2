// SPDX-License-Identifier: Apache-2.0
// Activations and dropout.
#include <type_traits>

#include "base/random.h"
#include "exec/device/cuda/storage.h"

namespace tandem::exec::cuda {

namespace {

constexpr float kRootHalf = 0.70710678F, kGaussian = 0.39894228F;  // 1/sqrt(2), 1/sqrt(2 pi)

__device__ float sigmoid(float x) { return 1 / (1 + expf(-x)); }

// Each activation: y = forward(x), dx = dy * slope(z), where z is y up to tanh and x from gelu on
// (exec/lower/call.h).
struct Relu {
  __device__ float forward(float x) const { return x > 0 ? x : 0; }
  __device__ float slope(float y) const { return y > 0 ? 1.0F : 0.0F; }
};
struct Relu6 {
  __device__ float forward(float x) const { return fminf(fmaxf(x, 0.0F), 6.0F); }
  __device__ float slope(float y) const { return y > 0 && y < 6 ? 1.0F : 0.0F; }
};
struct LeakyRelu {
  float low;
  __device__ float forward(float x) const { return x > 0 ? x : low * x; }
  __device__ float slope(float y) const { return y > 0 ? 1 : low; }
};
struct Clip {
  float low, high;
  __device__ float forward(float x) const { return fminf(fmaxf(x, low), high); }
  __device__ float slope(float y) const { return y > low && y < high ? 1.0F : 0.0F; }
};
struct Sigmoid {
  __device__ float forward(float x) const { return sigmoid(x); }
  __device__ float slope(float y) const { return y * (1 - y); }
};
struct Tanh {
  __device__ float forward(float x) const { return tanhf(x); }
  __device__ float slope(float y) const { return 1 - y * y; }
};
struct Gelu {
  __device__ float forward(float x) const { return 0.5F * x * (1 + erff(x * kRootHalf)); }
  __device__ float slope(float x) const {
    return 0.5F * (1 + erff(x * kRootHalf)) + x * kGaussian * expf(-0.5F * x * x);
  }
};
struct Swish {
  __device__ float forward(float x) const { return x * sigmoid(x); }
  __device__ float slope(float x) const {
    const float s = sigmoid(x);
    return s * (1 + x * (1 - s));
  }
};
struct HardSigmoid {
  __device__ float forward(float x) const { return fminf(fmaxf(x + 3, 0.0F), 6.0F) * (1 / 6.0F); }
  __device__ float slope(float x) const { return x > -3 && x < 3 ? 1 / 6.0F : 0.0F; }
};
struct HardSwish {
  __device__ float forward(float x) const { return x * fminf(fmaxf(x + 3, 0.0F), 6.0F) * (1 / 6.0F); }
  __device__ float slope(float x) const { return x <= -3 ? 0.0F : x < 3 ? x / 3 + 0.5F : 1.0F; }
};
struct Relu2 {
  __device__ float forward(float x) const { return x > 0 ? x * x : 0.0F; }
  __device__ float slope(float x) const { return x > 0 ? 2 * x : 0.0F; }
};
struct Softplus {  // for large x the exponential would overflow
  __device__ float forward(float x) const { return fmaxf(x, 0.0F) + log1pf(expf(-fabsf(x))); }
  __device__ float slope(float x) const { return sigmoid(x); }
};

template <typename A>
struct Forward {
  A a;
  __device__ float operator()(float x) const { return a.forward(x); }
};
template <typename A>
struct Backward {
  A a;
  __device__ float operator()(float dy, float z) const { return dy * a.slope(z); }
};

/// use(activation) for the one that the call names.
template <typename T, typename Use>
Prepared with_activation(const Call& c, const Use& use) {
  const float low = c.scalars.empty() ? 0 : c.scalars[0], high = c.scalars.size() > 1 ? c.scalars[1] : 0;
  switch (static_cast<Unary>(c.shape[1])) {
    case Unary::relu:
      return use(Relu{});
    case Unary::relu6:
      return use(Relu6{});
    case Unary::leaky_relu:
      return use(LeakyRelu{low});
    case Unary::clip:
      return use(Clip{as_stored<T>(low), as_stored<T>(high)});  // so that what was cut off is known by it
    case Unary::sigmoid:
      return use(Sigmoid{});
    case Unary::tanh:
      return use(Tanh{});
    case Unary::gelu:
      return use(Gelu{});
    case Unary::swish:
      return use(Swish{});
    case Unary::hard_sigmoid:
      return use(HardSigmoid{});
    case Unary::hard_swish:
      return use(HardSwish{});
    case Unary::relu2:
      return use(Relu2{});
    default:
      return use(Softplus{});
  }
}

template <typename T>
Prepared unary(const Call& c) {
  const int64_t n = c.shape[0];
  return with_activation<T>(c, [n](auto a) {
    return Prepared{[=](const Launch& l) {
      map<T>(n, Forward<decltype(a)>{a}, operand<T>(l, 0), operand<T>(l, 1), l.stream);
    }};
  });
}

template <typename T>
Prepared unary_backward(const Call& c) {
  const int64_t n = c.shape[0];
  return with_activation<T>(c, [n](auto a) {
    return Prepared{[=](const Launch& l) {
      map2<T>(n, Backward<decltype(a)>{a}, operand<T>(l, 0), operand<T>(l, 1), operand<T>(l, 2), l.stream);
    }};
  });
}

/// The draws of exec/device/cpu/elementwise.cpp, so that masks are the same on every backend.
__device__ uint32_t scramble(uint32_t h) {
  h ^= h >> 16;
  h *= 0x85ebca6bU;
  h ^= h >> 13;
  h *= 0xc2b2ae35U;
  return h ^ h >> 16;
}

/// W elements a thread, and their marks, side by side.
template <int W, typename T>
__global__ void dropout_kernel(int64_t n, uint64_t salt, uint32_t limit, float scale, const State* state,
                               uint32_t micro, T* y, const T* x, uint8_t* mask) {
  const auto key = static_cast<uint32_t>(
      mix64(state->seed ^ mix64(salt << 40 ^ static_cast<uint64_t>(state->instance) << 32 ^
                                static_cast<uint64_t>(state->iteration + micro))));
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x * W;
  for (int64_t i = global_index() * W; i < n; i += stride) {
    float v[W];
    Neighbours<uint8_t, W> marks;
    load_neighbours(x + i, v);
#pragma unroll
    for (int k = 0; k < W; ++k) {
      const bool keep = scramble(static_cast<uint32_t>(i + k) ^ key) >= limit;
      marks.v[k] = keep ? 1 : 0;
      v[k] = keep ? scale * v[k] : 0;
    }
    *reinterpret_cast<Neighbours<uint8_t, W>*>(mask + i) = marks;
    store_neighbours(y + i, v);
  }
}

template <int W, typename T>
__global__ void dropout_backward_kernel(int64_t n, float scale, T* dx, const T* dy, const uint8_t* mask) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x * W;
  for (int64_t i = global_index() * W; i < n; i += stride) {
    float v[W];
    const auto marks = *reinterpret_cast<const Neighbours<uint8_t, W>*>(mask + i);
    load_neighbours(dy + i, v);
#pragma unroll
    for (int k = 0; k < W; ++k) v[k] = marks.v[k] != 0 ? scale * v[k] : 0;
    store_neighbours(dx + i, v);
  }
}

/// use(number of elements that a thread takes): four where all lie well, which tensors of the arena do.
template <typename T, typename Use>
void by_neighbours(int64_t n, const T* a, const T* b, const uint8_t* mask, const Use& use) {
  const auto at = reinterpret_cast<uintptr_t>(a) | reinterpret_cast<uintptr_t>(b);
  const bool wide = n % 4 == 0 && at % (4 * sizeof(T)) == 0 && reinterpret_cast<uintptr_t>(mask) % 4 == 0;
  wide ? use(std::integral_constant<int, 4>{}) : use(std::integral_constant<int, 1>{});
}

constexpr unsigned kDropoutBlocks = 8192;

template <typename T>
Prepared dropout(const Call& c) {
  const int64_t n = c.shape[0];
  const auto salt = static_cast<uint64_t>(c.shape[1]);
  const float p = c.scalars.at(0), scale = 1 / (1 - p);
  const auto limit = static_cast<uint32_t>(static_cast<double>(p) * 4294967296.0);
  return {[=](const Launch& l) {
    T *y = operand<T>(l, 0), *x = operand<T>(l, 1);
    auto* mask = operand<uint8_t>(l, 2);
    by_neighbours(n, y, x, mask, [&](auto wide) {
      launch(dropout_kernel<decltype(wide)::value, T>,
             std::min(kDropoutBlocks, blocks_for(n, int64_t{kThreads} * decltype(wide)::value)), kThreads,
             l.stream, n, salt, limit, scale, l.state, l.micro, y, x, mask);
    });
  }};
}

template <typename T>
Prepared dropout_backward(const Call& c) {
  const int64_t n = c.shape[0];
  const float scale = 1 / (1 - c.scalars.at(0));
  return {[=](const Launch& l) {
    T *dx = operand<T>(l, 0), *dy = operand<T>(l, 1);
    auto* mask = operand<uint8_t>(l, 2);
    by_neighbours(n, dx, dy, mask, [&](auto wide) {
      launch(dropout_backward_kernel<decltype(wide)::value, T>,
             std::min(kDropoutBlocks, blocks_for(n, int64_t{kThreads} * decltype(wide)::value)), kThreads,
             l.stream, n, scale, dx, dy, mask);
    });
  }};
}

}  // namespace

void add_elementwise(Table& t) {
  set(t, Function::unary, unary<float>, unary<Bf16>, unary<Fp16>, half_operands<0, 1>);
  set(t, Function::unary_backward, unary_backward<float>, unary_backward<Bf16>, unary_backward<Fp16>,
      half_operands<0, 1, 2>);
  set(t, Function::dropout, dropout<float>, dropout<Bf16>, dropout<Fp16>, half_operands<0, 1>);
  set(t, Function::dropout_backward, dropout_backward<float>, dropout_backward<Bf16>, dropout_backward<Fp16>,
      half_operands<0, 1>);
}

}  // namespace tandem::exec::cuda
