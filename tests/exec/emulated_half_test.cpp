// Numbers of 2 bytes in the CUDA kernels: their conversions, and products of them, held against
// double-precision sums of inputs that are rounded here, by other means.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/random.h"
#include "exec/cuda/half.h"
#include "exec/cuda/storage.h"
#include "tests/exec/emulated_backend.h"

namespace tandem {
namespace {

/// To so many significant bits, ties to even.
double rounded(double x, int bits) {
  int exponent = 0;
  const double mantissa = std::frexp(x, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(mantissa, bits)), exponent - bits);
}

struct Multiplied {
  std::vector<float> got;
  std::vector<double> want, magnitude;  ///< the exact sum, and that of its terms' magnitudes
};

constexpr int64_t kM = 19, kN = 21, kK = 33;

/// c = 5 + a b + bias, added to, with entries up to these.
Multiplied multiply(Precision precision, double largest_a, double largest_b) {
  const int bits = precision == Precision::bf16 ? 8 : 11;
  const auto device = emulated_backend().open({0, precision, 1, false});
  SplitMix64 random(11);
  const auto upload = [&](int64_t n, double largest) {
    std::vector<float> values(static_cast<std::size_t>(n));
    for (float& v : values) v = static_cast<float>(largest * (2 * to_unit(random.next()) - 1));
    values[0] = static_cast<float>(largest);
    float* memory = device->allocate(n);
    device->upload(memory, values.data(), n);
    return std::pair{memory, values};
  };
  const auto [a, host_a] = upload(kM * kK, largest_a);
  const auto [b, host_b] = upload(kK * kN, largest_b);
  const auto [bias, host_bias] = upload(kN, largest_a * largest_b);
  const auto [c, host_c] = upload(kM * kN, largest_a * largest_b);
  Call call;
  call.function = Function::gemm;
  call.operands = {0, 1, 2, 3};
  call.shape = {kM, kN, kK, 0, 0, 1};
  device->launch(device->prepare(call), std::array{c, a, b, bias}, {}, Lane::compute);
  Multiplied out;
  out.got.resize(kM * kN);
  device->download(out.got.data(), c, kM * kN);
  for (int64_t i = 0; i < kM * kN; ++i) {
    const auto at = static_cast<std::size_t>(i);
    out.want.push_back(static_cast<double>(host_c[at]) +
                       static_cast<double>(host_bias[static_cast<std::size_t>(i % kN)]));
    out.magnitude.push_back(std::abs(out.want.back()));
    for (int64_t k = 0; k < kK; ++k) {
      const double x = static_cast<double>(host_a[static_cast<std::size_t>(i / kN * kK + k)]),
                   y = static_cast<double>(host_b[static_cast<std::size_t>(k * kN + i % kN)]);
      const double term = rounded(x, bits) * rounded(y, bits);
      out.want.back() += term;
      out.magnitude.back() += std::abs(term);
    }
  }
  return out;
}

void expect_rounded_inputs_only(Precision precision, double largest_a, double largest_b) {
  const Multiplied m = multiply(precision, largest_a, largest_b);
  for (std::size_t i = 0; i < m.got.size(); ++i)
    ASSERT_NEAR(m.got[i], m.want[i], 1e-6 * m.magnitude[i]) << name(precision) << " element " << i;
}

constexpr float kInfinite = std::numeric_limits<float>::infinity();

/// Every finite number of the format from 0 up, in order, is kept; what lies between two goes to the nearer,
/// and from the middle to the even one. Below 0 alike.
template <typename T>
void expect_nearest(uint16_t largest, float (*value)(uint16_t)) {
  const auto store = [](float v) {
    T out;
    cuda::store(&out, v);
    return out.bits;
  };
  for (uint32_t k = 0; k < largest; ++k) {
    const auto bits = static_cast<uint16_t>(k);
    const T number{bits};
    const float v = cuda::load(&number), middle = v + (value(static_cast<uint16_t>(k + 1)) - v) / 2;
    ASSERT_EQ(v, value(bits)) << k;
    ASSERT_EQ(store(v), bits);
    ASSERT_EQ(store(std::nextafter(middle, 0.0F)), bits);
    ASSERT_EQ(store(middle), k + k % 2);
    ASSERT_EQ(store(std::nextafter(middle, kInfinite)), k + 1);
    ASSERT_EQ(store(-middle), 0x8000U + k + k % 2);
  }
  const T negative{static_cast<uint16_t>(0x8000U + largest)};
  EXPECT_EQ(cuda::load(&negative), -value(largest));
  const uint16_t infinite = store(kInfinite);
  EXPECT_EQ(infinite, largest + 1);
  EXPECT_EQ(store(std::numeric_limits<float>::max()), infinite);
  const T nan{store(std::numeric_limits<float>::quiet_NaN())};
  EXPECT_TRUE(std::isnan(cuda::load(&nan)));
}

TEST(EmulatedHalf, RoundsToNearestEven) {
  expect_nearest<cuda::Fp16>(0x7bff, [](uint16_t bits) {
    const int exponent = bits >> 10, mantissa = bits & 0x3ff;
    return exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                         : std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
  });
  expect_nearest<cuda::Bf16>(0x7f7f, [](uint16_t bits) {
    const int exponent = bits >> 7, mantissa = bits & 0x7f;
    return exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -133)
                         : std::ldexp(static_cast<float>(128 + mantissa), exponent - 134);
  });
}

TEST(EmulatedHalf, WidensBf16) {
  std::vector<cuda::Bf16> from(300);
  std::vector<float> to(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) cuda::store(&from[i], static_cast<float>(i) * 0.5F - 20);
  cuda::widen_bf16(to.data(), from.data(), static_cast<int64_t>(to.size()), nullptr);
  for (std::size_t i = 0; i < to.size(); ++i)
    ASSERT_EQ(to[i], rounded(static_cast<double>(i) * 0.5 - 20, 8)) << i;
}

TEST(EmulatedHalf, RoundsInputsAndNothingElse) {
  expect_rounded_inputs_only(Precision::bf16, 1, 3);
  expect_rounded_inputs_only(Precision::fp16, 1, 3);
}

/// Far outside of fp16's own range: gradients that a loss scale would have to save, and what would overflow.
TEST(EmulatedHalf, ScaleCarriesWhatFp16CannotHold) {
  expect_rounded_inputs_only(Precision::fp16, 1e-12, 1e-3);
  expect_rounded_inputs_only(Precision::fp16, 1e9, 1e-12);
  expect_rounded_inputs_only(Precision::fp16, 1e9, 1e9);
}

TEST(EmulatedHalf, ZerosStayZeros) {
  for (const float v : multiply(Precision::fp16, 0, 1).got) ASSERT_EQ(v, 0);
}

TEST(EmulatedHalf, WhatIsNotFiniteShows) {
  for (const Precision p : {Precision::bf16, Precision::fp16})
    EXPECT_FALSE(std::isfinite(multiply(p, kInfinite, 1).got[0])) << name(p);
}

}  // namespace
}  // namespace tandem
