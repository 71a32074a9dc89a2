// Numbers of 2 bytes in the CUDA kernels: their conversions, products of them, held against double-precision
// sums of inputs that are rounded here, by other means, and functions on tensors that are stored so.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "base/random.h"
#include "exec/cuda/half.h"
#include "exec/cuda/storage.h"
#include "exec/network.h"
#include "tests/exec/emulated_backend.h"
#include "tests/exec/layer_cases.h"

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

TEST(EmulatedHalf, OnlyWhatLayersHandOnIsShort) {
  const Graph graph = Graph::load("digits-cnn");
  const Network whole(graph, 8), half(graph, 8, true, Precision::bf16);
  for (TensorId t = 0; t < whole.tensors().size(); ++t) {
    const Tensor &a = whole.tensors()[t], &b = half.tensors()[t];  // random draws go by these ids
    ASSERT_EQ(a.elements, b.elements);
    ASSERT_EQ(a.kind, b.kind);
    EXPECT_FALSE(a.half);
    EXPECT_TRUE(!b.half || b.kind == TensorKind::activation || b.kind == TensorKind::gradient);
  }
  EXPECT_EQ(half.parameters(), whole.parameters());
  EXPECT_EQ(half.input_elements(), whole.input_elements());
  EXPECT_LT(half.arena(), whole.arena() * 7 / 10);  // places of maxima keep their size
}

/// Memory of a call's tensors: positive numbers, as statistics need; 0 for labels and tokens.
std::vector<std::vector<float>> operands_of(const Network& network, const Call& call) {
  SplitMix64 random(31);
  std::vector<std::vector<float>> out;
  for (const TensorId id : call.operands) {
    const Tensor& t = network.tensors()[id];
    std::vector<float>& memory = out.emplace_back(static_cast<std::size_t>(t.words()));
    if (t.integer) continue;
    for (float& v : memory) v = static_cast<float>(0.1 + to_unit(random.next()));
    if (!t.half) continue;
    auto* to = reinterpret_cast<cuda::Bf16*>(memory.data());
    for (int64_t i = 0; i < t.elements; ++i)
      cuda::store(to + i, static_cast<float>(0.1 + to_unit(random.next())));
  }
  return out;
}

/// Operands that are one tensor share the first one's memory.
std::vector<std::vector<float>> run_call(const Network& network, const Call& call,
                                         const cuda::Prepared& made) {
  auto memory = operands_of(network, call);
  std::vector<float*> operands;
  for (std::size_t k = 0; k < call.operands.size(); ++k) {
    const auto same = std::find(call.operands.begin(), call.operands.end(), call.operands[k]);
    operands.push_back(memory[static_cast<std::size_t>(same - call.operands.begin())].data());
  }
  std::vector<float> scratch(static_cast<std::size_t>(made.scratch), 1e30F);
  const cuda::State state;
  made.run({operands.data(), &state, scratch.data(), nullptr});
  return memory;
}

bool multiplies(Function f) {
  return f == Function::gemm || f == Function::conv || f == Function::conv_backward_data ||
         f == Function::conv_backward_weights;
}

/// Kernels on halves add as those on floats do: their results are the rounded ones, to the bit.
TEST(EmulatedHalf, KernelsOnHalvesEqualThoseOnCopies) {
  std::set<Function> seen;
  for (const LayerCase& c : layer_cases()) {
    const Graph graph = graph_of(c);
    const Network network(graph, 3, true, Precision::bf16);
    for (uint32_t layer = 0; layer < graph.layers().size(); ++layer) {
      for (const auto* calls : {&network.forward(layer), &network.backward(layer)}) {
        for (const Call& call : *calls) {
          const cuda::Maker& make = cuda::own_kernels()[static_cast<std::size_t>(call.function)];
          if (cuda::halves_of(call) == 0 || multiplies(call.function)) continue;
          const auto direct = run_call(network, call, cuda::prepare_own(call)),
                     copied = run_call(network, call, cuda::widened(call, make.plain));
          for (std::size_t k = 0; k < direct.size(); ++k)
            ASSERT_EQ(std::memcmp(direct[k].data(), copied[k].data(), direct[k].size() * sizeof(float)), 0)
                << name(call.function) << " operand " << k << " in " << c.layers;
          if (make.half != nullptr && make.halves(call) == cuda::halves_of(call)) seen.insert(call.function);
        }
      }
    }
  }
  for (std::size_t f = 0; f < static_cast<std::size_t>(Function::end); ++f) {
    const auto function = static_cast<Function>(f);
    const bool inference = function == Function::batch_norm_inference;  // no pass of a training
    if (cuda::own_kernels()[f].half == nullptr || inference) continue;
    EXPECT_EQ(seen.count(function), 1U) << name(function) << " never ran on halves";
  }
}

}  // namespace
}  // namespace tandem
