// SPDX-License-Identifier: Apache-2.0
#pragma once
// Numbers of 2 bytes in memory, for the .cu files. Converted by integer arithmetic, rounding to nearest even,
// on the tests' emulated device and on old chips; later ones have instructions for the same, but for which
// NaN a NaN becomes.
#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

#include <cstring>

#include "exec/device/cuda/device.h"

namespace tandem::exec::cuda {

struct Bf16 {
  uint16_t bits;
};
struct Fp16 {
  uint16_t bits;
};
/// The format that stores numbers so.
template <typename T>
constexpr Precision kStored = Precision::fp32;
template <>
inline constexpr Precision kStored<Bf16> = Precision::bf16;
template <>
inline constexpr Precision kStored<Fp16> = Precision::fp16;

__host__ __device__ inline uint32_t to_bits(float v) {
  uint32_t out;
  memcpy(&out, &v, sizeof(out));
  return out;
}
__host__ __device__ inline float from_bits(uint32_t bits) {
  float out;
  memcpy(&out, &bits, sizeof(out));
  return out;
}

__host__ __device__ inline bool finite(float v) { return (to_bits(v) & 0x7f800000U) != 0x7f800000U; }

__host__ __device__ inline float load(const Bf16* p) {
  return from_bits(static_cast<uint32_t>(p->bits) << 16);
}
__host__ __device__ inline void store(Bf16* p, float v) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  p->bits = __bfloat16_as_ushort(__float2bfloat16_rn(v));
#else
  const uint32_t u = to_bits(v);
  const bool nan = (u & 0x7fffffffU) > 0x7f800000U;  // must not be rounded to infinity
  p->bits = static_cast<uint16_t>(nan ? u >> 16 | 0x40U : (u + 0x7fffU + (u >> 16 & 1U)) >> 16);
#endif
}

__host__ __device__ inline float load(const Fp16* p) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  return __half2float(__ushort_as_half(p->bits));
#else
  const uint32_t sign = (p->bits & 0x8000U) << 16, rest = static_cast<uint32_t>(p->bits & 0x7fffU) << 13;
  if (rest >= 0x7c00U << 13) return from_bits(sign | 0x7f800000U | rest);
  return from_bits(sign | to_bits(from_bits(rest) * 0x1p112F));  // the exponents' biases differ by 112
#endif
}
__host__ __device__ inline void store(Fp16* p, float v) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  p->bits = __half_as_ushort(__float2half_rn(v));
#else
  const uint32_t u = to_bits(v), sign = u >> 16 & 0x8000U;
  uint32_t rest = u & 0x7fffffffU;
  const float magnitude = from_bits(rest);
  if (rest > 0x7f800000U) {
    rest = 0x7e00U;
  } else if (magnitude >= 65520.0F) {  // halfway between the largest and what would follow it
    rest = 0x7c00U;
  } else if (magnitude < 0x1p-14F) {  // subnormal: multiples of 2^-24
    rest = static_cast<uint32_t>(rintf(magnitude * 0x1p24F));
  } else {
    rest = (rest - (112U << 23) + 0xfffU + (rest >> 13 & 1U)) >> 13;
  }
  p->bits = static_cast<uint16_t>(sign | rest);
#endif
}

/// A number as T holds it.
template <typename T>
float as_stored(float v) {
  T number;
  store(&number, v);
  return load(&number);
}

/// Sign, exponent and `M` bits of mantissa in 1 byte (Micikevicius et al. 2022, table 1). What is beyond the
/// largest becomes the largest, what is not finite NaN.
template <int M, int Bias, unsigned Largest, unsigned Nan>
struct Fp8 {
  uint8_t bits;
};
using E4m3 = Fp8<3, 7, 0x7e, 0x7f>;   // up to 448; no infinity
using E5m2 = Fp8<2, 15, 0x7b, 0x7e>;  // up to 57344

template <int M, int Bias, unsigned Largest, unsigned Nan>
__device__ float load(const Fp8<M, Bias, Largest, Nan>* p) {
  const uint32_t sign = (p->bits & 0x80U) << 24, rest = p->bits & 0x7fU;
  if (rest > Largest) return from_bits(sign | 0x7fc00000U);
  if (rest >> M == 0) return from_bits(sign | to_bits(static_cast<float>(rest) / (1 << (Bias - 1 + M))));
  return from_bits(sign | ((rest << (23 - M)) + (static_cast<uint32_t>(127 - Bias) << 23)));
}
template <int M, int Bias, unsigned Largest, unsigned Nan>
__device__ void store(Fp8<M, Bias, Largest, Nan>* p, float v) {
  const uint32_t u = to_bits(v), sign = u >> 24 & 0x80U;
  uint32_t rest = u & 0x7fffffffU;
  const float magnitude = from_bits(rest);
  constexpr uint32_t kNormal = static_cast<uint32_t>(128 - Bias) << 23;  // the least that is
  if (!finite(v)) {
    rest = Nan;
  } else if (rest < kNormal) {
    rest = static_cast<uint32_t>(rintf(magnitude * (1 << (Bias - 1 + M))));
  } else {
    rest =
        (rest - (static_cast<uint32_t>(127 - Bias) << 23) + (1U << (22 - M)) - 1 + (rest >> (23 - M) & 1U)) >>
        (23 - M);
    if (rest > Largest) rest = Largest;
  }
  p->bits = static_cast<uint8_t>(sign | rest);
}

}  // namespace tandem::exec::cuda
