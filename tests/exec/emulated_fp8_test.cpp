// SPDX-License-Identifier: Apache-2.0
// Products in fp8 in the CUDA kernels: formats, delayed scales and sums, held against double-precision ones
// of inputs that are rounded here, by other means.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "base/random.h"
#include "exec/device/cuda/fp8.h"
#include "exec/device/cuda/storage.h"
#include "exec/execute.h"
#include "tests/exec/deferred.h"
#include "tests/exec/emulated_backend.h"

namespace tandem::tests {
namespace {

/// A format by its definition: bits of mantissa, bias of the exponent, largest number.
struct Format {
  int mantissa, bias;
  double largest;
  double value(int code) const {
    const int exponent = code >> mantissa, rest = code & ((1 << mantissa) - 1);
    return exponent == 0 ? std::ldexp(rest, 1 - bias - mantissa)
                         : std::ldexp((1 << mantissa) + rest, exponent - bias - mantissa);
  }
  /// The nearest of its numbers, ties to even.
  double nearest(double x) const {
    const int exponent = std::max(1 - bias, std::ilogb(x == 0 ? 1e-30 : x));
    const double unit = std::ldexp(1.0, exponent - mantissa);
    return std::clamp(std::nearbyint(x / unit) * unit, -largest, largest);
  }
  /// The largest power of two that keeps a magnitude in range.
  double scale(double magnitude) const {
    return magnitude == 0 ? 1 : std::exp2(std::floor(std::log2(largest / magnitude)));
  }
};
constexpr Format kE4m3{3, 7, 448}, kE5m2{2, 15, 57344};

template <typename T>
void expect_nearest(const Format& f, int largest) {
  const auto store = [](double v) {
    T out;
    cuda::store(&out, static_cast<float>(v));
    return static_cast<int>(out.bits);
  };
  for (int code = 0; code < largest; ++code) {
    const T number{static_cast<uint8_t>(code)};
    ASSERT_EQ(cuda::load(&number), f.value(code)) << code;
    const double middle = (f.value(code) + f.value(code + 1)) / 2;
    ASSERT_EQ(store(f.value(code)), code);
    ASSERT_EQ(store(middle * (1 - 1e-6)), code);
    ASSERT_EQ(store(middle), code + code % 2);
    ASSERT_EQ(store(middle * (1 + 1e-6)), code + 1);
    ASSERT_EQ(store(-middle), 0x80 + code + code % 2);
  }
  EXPECT_EQ(f.value(largest), f.largest);
  EXPECT_EQ(store(f.largest * 1.5), largest);
  EXPECT_EQ(store(-1e30), 0x80 + largest);
  for (const double v : {std::numeric_limits<double>::infinity(), std::nan("")}) {
    const T number{static_cast<uint8_t>(store(v))};
    EXPECT_TRUE(std::isnan(cuda::load(&number)));
  }
}

TEST(EmulatedFp8, RoundsToNearestEvenAndCutsOff) {
  expect_nearest<cuda::E4m3>(kE4m3, 0x7e);
  expect_nearest<cuda::E5m2>(kE5m2, 0x7b);
}

struct Sizes {
  int64_t m = 32, n = 48, k = 80;
};

/// c = op(a) op(b) on a device in fp8; a is stored as bf16, b in 4 bytes, both so many bytes behind a
/// multiple of 16.
struct Gemm {
  int64_t m, n, k;
  std::unique_ptr<DeviceSession> device = emulated_backend().open({0, Precision::fp8, 1});
  Call call;
  uint32_t prepared = 0;
  float *a, *b, *c;
  std::vector<double> host_a, host_b;
  bool last = false;  ///< the last number of each is four times as large as the largest else

  Gemm(bool transpose_a, bool transpose_b, uint32_t gradients, Sizes sizes = {}, int64_t offset = 0)
      : m(sizes.m), n(sizes.n), k(sizes.k) {
    call.function = Function::gemm;
    call.operands = {0, 1, 2};
    call.shape = {m, n, k, transpose_a, transpose_b, 0};
    call.half_operands = {0, m * k, 0};
    call.gradients = gradients;
    a = device->allocate(m * k / 2 + 4) + offset / 4;
    b = device->allocate(k * n + 4) + offset / 4;
    c = device->allocate(m * n);
    prepared = device->prepare(call);
  }
  /// Numbers up to these; then the product.
  std::vector<float> run(double largest_a, double largest_b, uint64_t seed) {
    SplitMix64 random(seed);
    const auto draw = [&](int64_t n, double largest, std::vector<double>& host) {
      std::vector<float> values(static_cast<std::size_t>(n));
      for (float& v : values) v = static_cast<float>(largest * (2 * to_unit(random.next()) - 1));
      values[0] = static_cast<float>(largest);
      if (last) values.back() = 4 * values[0];
      if (&host == &host_a) {
        for (float& v : values) v = cuda::as_stored<cuda::Bf16>(v);
      }
      host.assign(values.begin(), values.end());
      return values;
    };
    const auto values_a = draw(m * k, largest_a, host_a), values_b = draw(k * n, largest_b, host_b);
    std::vector<float> half(m * k / 2);
    cuda::narrow(half.data(), values_a.data(), Precision::bf16, m * k, nullptr);
    device->upload(a, half.data(), m * k / 2);
    device->upload(b, values_b.data(), k * n);
    device->launch(prepared, std::array{c, a, b}, {}, Lane::compute);
    std::vector<float> out(m * n);
    device->download(out.data(), c, m * n);
    return out;
  }
  void expect(const std::vector<float>& got, double scale_a, double scale_b) const {
    const auto rounded = [](const Format& f, std::vector<double> values, double scale) {
      for (double& v : values) v = f.nearest(v * scale) / scale;
      return values;
    };
    const auto x = rounded((call.gradients & 2U) != 0 ? kE5m2 : kE4m3, host_a, scale_a),
               y = rounded((call.gradients & 4U) != 0 ? kE5m2 : kE4m3, host_b, scale_b);
    for (int64_t i = 0; i < m * n; ++i) {
      double want = 0, all = 0;
      for (int64_t t = 0; t < k; ++t) {
        const int64_t row = i / n, column = i % n;
        const double term = x[static_cast<std::size_t>(call.shape[3] != 0 ? t * m + row : row * k + t)] *
                            y[static_cast<std::size_t>(call.shape[4] != 0 ? column * k + t : t * n + column)];
        want += term;
        all += std::abs(term);
      }
      ASSERT_NEAR(got[static_cast<std::size_t>(i)], want, 1e-6 * all + 1e-30) << i;
    }
  }
};

TEST(EmulatedFp8, MultipliesScaledInputs) {
  for (const uint32_t gradients : {0U, 2U, 4U}) {
    for (const auto& [ta, tb] : {std::pair{false, false}, std::pair{false, true}, std::pair{true, false}}) {
      Gemm g(ta, tb, gradients);
      const double a = (gradients & 2U) != 0 ? 3e-5 : 2.5, b = (gradients & 4U) != 0 ? 7e-4 : 0.3;
      g.expect(g.run(a, b, 5), 1, 1);  // nothing is known yet
      const Format fa = (gradients & 2U) != 0 ? kE5m2 : kE4m3, fb = (gradients & 4U) != 0 ? kE5m2 : kE4m3;
      const double seen_a = static_cast<double>(cuda::as_stored<cuda::Bf16>(static_cast<float>(a)));
      const double scale_a = fa.scale(seen_a), scale_b = fb.scale(b);
      g.expect(g.run(a, b, 6), scale_a, scale_b);
      g.expect(g.run(a / 50, b / 50, 7), scale_a, scale_b);  // larger ones are remembered
    }
  }
}

/// So many elements that blocks take several turns, and such that lie at no multiple of 16 bytes. The scales
/// of the second run are of all elements of the first.
TEST(EmulatedFp8, QuantisesInputsOfAnySizeFromAnywhere) {
  for (const auto& [sizes, offset] : {std::pair{Sizes{16, 16, 70016}, 0}, std::pair{Sizes{80, 48, 144}, 4}}) {
    for (const auto& [ta, tb] : {std::pair{false, false}, std::pair{false, true}, std::pair{true, false}}) {
      Gemm g(ta, tb, 0, sizes, offset);
      g.last = true;
      g.expect(g.run(0.5, 0.25, 5), 1, 1);
      g.expect(g.run(0.5, 0.25, 6), 128, 256);
    }
  }
}

TEST(EmulatedFp8, ScalesFollowTheLastSixteenLaunches) {
  Gemm g(false, false, 0);
  g.run(1, 1, 1);
  g.expect(g.run(4, 1, 2), 256, 256);  // beyond 448 / 256 is cut off, once
  g.expect(g.run(4, 1, 3), 64, 256);
  for (uint64_t i = 0; i < 16; ++i) g.expect(g.run(1, 1, 10 + i), 64, 256);
  g.expect(g.run(1, 1, 30), 256, 256);
}

TEST(EmulatedFp8, WhatIsNotFiniteShows) {
  Gemm g(false, false, 0);
  EXPECT_TRUE(std::isnan(g.run(std::numeric_limits<double>::infinity(), 1, 1)[0]));
  g.expect(g.run(1, 1, 2), 1, 256);  // and spoils no scale
}

TEST(EmulatedFp8, IsTakenWhereItFits) {
  Call c = Gemm(false, false, 0).call;
  EXPECT_TRUE(cuda::multiplies_fp8(c));
  Call odd = c;
  odd.shape[2] = 72;
  EXPECT_FALSE(cuda::multiplies_fp8(odd)) << "no multiple of 16";
  Call whole = c;
  whole.half_operands = {0, 0, 0};
  EXPECT_FALSE(cuda::multiplies_fp8(whole)) << "a recurrent step's";
  Call both = c;
  both.gradients = 6;
  EXPECT_FALSE(cuda::multiplies_fp8(both)) << "cuBLASLt has no product of two gradients";
}

/// The way that training takes is that of bf16 but for rounding, and it is another.
TEST(EmulatedFp8, Learns) {
  const Graph graph = Graph::from_json(Json::parse(R"({"name": "t", "inputs": {"x": [32]}, "layers": [
      {"type":"linear","features":64},{"type":"layer-norm"},{"type":"gelu"},{"type":"linear","features":16},
      {"type":"cross-entropy"}]})",
                                                   "t"));
  const ResolvedScheme scheme = resolve_scheme("allreduce", {});
  Backend backend = emulated_backend();
  backend.open = [](const DeviceOptions& options) -> std::unique_ptr<DeviceSession> {
    return std::make_unique<DeferredDevice>(emulated_backend().open(options));
  };
  std::vector<std::vector<double>> losses;
  for (const Precision p : {Precision::bf16, Precision::fp8}) {
    Execution e;
    e.job.graph = &graph;
    e.job.scheme = &scheme;
    e.backend = &backend;
    e.cluster = {2, 1, 2};
    e.job.batch = 16;
    e.job.precision = p;
    e.job.optimizer = &optimizer("momentum");
    e.iterations = 30;
    e.rate.base = 0.05;
    losses.push_back(execute(e).losses);
  }
  EXPECT_LT(losses[1].back(), 0.5 * losses[1].front());
  EXPECT_NE(losses[1].front(), losses[0].front());
  for (std::size_t i = 0; i < losses[0].size(); ++i)
    EXPECT_NEAR(losses[1][i], losses[0][i], 0.05 * losses[0].front()) << i;
}

}  // namespace
}  // namespace tandem::tests
