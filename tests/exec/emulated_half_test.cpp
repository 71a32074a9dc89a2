// SPDX-License-Identifier: Apache-2.0
// Numbers of 2 bytes in the CUDA kernels: their conversions, products of them, held against double-precision
// sums of inputs that are rounded here, by other means, and functions on tensors that are stored so.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "base/random.h"
#include "exec/device/cuda/fused_attention.h"
#include "exec/device/cuda/half.h"
#include "exec/device/cuda/mirror.h"
#include "exec/device/cuda/storage.h"
#include "exec/lower/execution_graph.h"
#include "tests/exec/emulated_backend.h"
#include "tests/exec/layer_cases.h"

namespace tandem::tests {
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
  const auto device = emulated_backend().open({0, precision, 1});
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

/// Small integers: sums are exact in whatever order. Threads have parts of a turn of rows, one, or several.
TEST(EmulatedHalf, ColumnSumsTakeEveryRowOnce) {
  const auto device = emulated_backend().open({0, Precision::bf16, 1});
  for (const auto& [rows, columns] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 1}, {3, 8}, {45, 8}, {130, 256}, {200, 24}, {900, 5}, {900'000, 1}}) {
    const int64_t n = rows * columns;
    std::vector<float> values(static_cast<std::size_t>(n)), want(static_cast<std::size_t>(columns));
    std::vector<cuda::Bf16> halves(static_cast<std::size_t>(n + 1));
    for (int64_t i = 0; i < n; ++i) {
      values[static_cast<std::size_t>(i)] = static_cast<float>(i * 7919 % 17 - 8);
      want[static_cast<std::size_t>(i % columns)] += values[static_cast<std::size_t>(i)];
      cuda::store(&halves[static_cast<std::size_t>(i)], values[static_cast<std::size_t>(i)]);
    }
    for (const bool half : {false, true}) {
      Call call;
      call.function = Function::column_sum;
      call.operands = {0, 1};
      call.shape = {rows, columns};
      if (half) call.half_operands = {0, n};
      float *sums = device->allocate(columns), *x = device->allocate(n);
      if (half)
        device->upload(x, reinterpret_cast<const float*>(halves.data()), (n + 1) / 2);
      else
        device->upload(x, values.data(), n);
      device->launch(device->prepare(call), std::array{sums, x}, {}, Lane::compute);
      std::vector<float> got(want.size());
      device->download(got.data(), sums, columns);
      EXPECT_EQ(got, want) << rows << " x " << columns << (half ? " halves" : "");
    }
  }
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

TEST(EmulatedHalf, NarrowsAndWidens) {
  for (const Precision p : {Precision::bf16, Precision::fp16}) {
    std::vector<float> from(300), to(from.size());
    std::vector<uint16_t> between(from.size());
    for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i) * 0.37F - 20;
    const auto n = static_cast<int64_t>(from.size());
    cuda::narrow(between.data(), from.data(), p, n, nullptr);
    cuda::upcast(to.data(), between.data(), p, n, nullptr);
    for (std::size_t i = 0; i < to.size(); ++i)
      ASSERT_EQ(to[i], rounded(static_cast<double>(from[i]), p == Precision::bf16 ? 8 : 11)) << i;
  }
}

TEST(EmulatedHalf, CopiesRowsIntoMoreAndWiderOnes) {
  constexpr int64_t rows = 3, columns = 2100, more = 5, wide = 2104;
  std::vector<uint16_t> from(rows * columns), to(more * wide, 9), back(rows * columns);
  std::iota(from.begin(), from.end(), uint16_t{1});
  const exec::cuda::Matrix narrow{from.data(), rows, columns, columns}, padded{to.data(), more, wide, wide};
  exec::cuda::copy_rows(padded, narrow, 2, nullptr);
  exec::cuda::copy_rows({back.data(), rows, columns, columns}, padded, 2, nullptr);
  EXPECT_EQ(back, from);
  EXPECT_EQ(to[columns], 0);
  EXPECT_EQ(to[wide], from[columns]);
  EXPECT_EQ(to[rows * wide], 0);
  EXPECT_EQ(std::accumulate(to.begin(), to.end(), int64_t{0}),
            std::accumulate(from.begin(), from.end(), int64_t{0}));
}

TEST(EmulatedHalf, RoundsInputsAndNothingElse) {
  expect_rounded_inputs_only(Precision::bf16, 1, 3);
  expect_rounded_inputs_only(Precision::fp16, 1, 3);
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
  const ExecutionGraph whole(graph, 8), half(graph, 8, true, Precision::bf16),
      fp16(graph, 8, true, Precision::fp16);
  EXPECT_EQ(half.arena(), fp16.arena());
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
std::vector<std::vector<float>> operands_of(const ExecutionGraph& lowered, const Call& call, Precision half) {
  SplitMix64 random(31);
  std::vector<std::vector<float>> out;
  for (const TensorId id : call.operands) {
    const Tensor& t = lowered.tensors()[id];
    std::vector<float>& memory = out.emplace_back(static_cast<std::size_t>(t.words()));
    if (t.integer) continue;
    for (float& v : memory) v = static_cast<float>(0.1 + to_unit(random.next()));
    if (!t.half) continue;
    std::vector<float> values(static_cast<std::size_t>(t.elements));
    for (float& v : values) v = static_cast<float>(0.1 + to_unit(random.next()));
    cuda::narrow(memory.data(), values.data(), half, t.elements, nullptr);
  }
  return out;
}

/// Operands that are one tensor share the first one's memory.
std::vector<std::vector<float>> run_call(const ExecutionGraph& lowered, const Call& call, Precision half,
                                         const cuda::Prepared& made) {
  auto memory = operands_of(lowered, call, half);
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

/// Kernels on halves add as those on floats do: their results are the rounded ones, to the bit. Functions
/// that have a kernel on halves, and ran it, go to `seen`.
void expect_as_on_copies(const Graph& graph, const std::string& layers, Precision half,
                         std::set<Function>& seen, bool fuses = false) {
  const ExecutionGraph lowered(graph, 3, true, half, {.fuses = fuses});
  for (uint32_t layer = 0; layer < graph.layers().size(); ++layer) {
    for (const auto* calls : {&lowered.forward(layer), &lowered.backward(layer)}) {
      for (const Call& call : *calls) {
        const cuda::Maker& make = cuda::own_kernels()[static_cast<std::size_t>(call.function)];
        if (cuda::half_mask(call) == 0 || multiplies(call.function)) continue;
        const auto direct = run_call(lowered, call, half, cuda::prepare_own(call, half)),
                   copied = run_call(lowered, call, half, cuda::upcast(call, half, make.plain));
        for (std::size_t k = 0; k < direct.size(); ++k)
          ASSERT_EQ(std::memcmp(direct[k].data(), copied[k].data(), direct[k].size() * sizeof(float)), 0)
              << name(half) << " " << name(call.function) << " operand " << k << " in " << layers;
        if (make.half_operands != nullptr && make.half_operands(call) == cuda::half_mask(call))
          seen.insert(call.function);
      }
    }
  }
}

TEST(EmulatedHalf, KernelsOnHalvesEqualThoseOnCopies) {
  for (const Precision half : {Precision::bf16, Precision::fp16}) {
    std::set<Function> seen;
    for (const LayerCase& c : layer_cases()) {
      expect_as_on_copies(graph_of(c), c.layers, half, seen);
      if (c.type == "batch-norm") expect_as_on_copies(graph_of(c), c.layers, half, seen, true);
    }
    const Graph whole = Graph::load("gpt2:layers=1,hidden=16,heads=2,sequence=8,vocabulary=32");
    expect_as_on_copies(whole.slice({.context = 2}), "attention on half of a sequence", half, seen);
    const LayerCase odd{"softmax", R"({"s": [1, 16]})",
                        R"({"type":"linear","features":9001},{"type":"softmax"},{"type":"cross-entropy"})"};
    expect_as_on_copies(graph_of(odd), "rows that begin anywhere", half, seen);
    expect_as_on_copies(whole.slice({.ways = 2}), "a loss over half of the classes", half, seen);
    for (std::size_t f = 0; f < static_cast<std::size_t>(Function::end); ++f) {
      const auto function = static_cast<Function>(f);
      const bool no_pass = function == Function::batch_norm_inference || function == Function::update;
      if (cuda::own_kernels()[f].half_operands == nullptr || no_pass) continue;
      EXPECT_EQ(seen.count(function), 1U) << name(function) << " never ran on halves";
    }
  }
}

// ---- which attentions cuDNN's fused kernels are asked for ----
/// Forward and backward pass of the attention behind a linear layer of so many features.
std::pair<bool, bool> fused(int features, const std::string& attention, Precision p) {
  const Graph graph = graph_of({"attention", R"({"s": [32, 64]})",
                                R"({"type":"linear","features":)" + std::to_string(features) +
                                    R"(},{"type":"attention",)" + attention + "}"});
  const ExecutionGraph lowered(graph, 2, true, p);
  std::pair<bool, bool> out;
  for (uint32_t layer = 0; layer < graph.layers().size(); ++layer) {
    for (const Call& c : lowered.forward(layer)) out.first = out.first || cuda::fuses(c, p);
    for (const Call& c : lowered.backward(layer)) out.second = out.second || cuda::fuses(c, p);
  }
  return out;
}

TEST(FusedAttention, IsAskedForWhereItIsTheSame) {
  const std::pair both{true, true}, none{false, false};
  for (const Precision p : {Precision::bf16, Precision::fp16}) {
    EXPECT_EQ(fused(96, R"("heads":2)", p), both);
    EXPECT_EQ(fused(96, R"("heads":2,"causal":true)", p), both);
    EXPECT_EQ(fused(128, R"("heads":4,"kv_heads":2)", p), both) << "shared keys";
    EXPECT_EQ(fused(72, R"("heads":2)", p), none) << "heads of 12";
    EXPECT_EQ(fused(576, R"("heads":1)", p), none) << "a head of 192";
  }
  EXPECT_EQ(fused(96, R"("heads":2)", Precision::fp32), none);
  EXPECT_EQ(fused(96, R"("heads":2)", Precision::tf32), none);
}

// ---- the loss's scale ----
struct Scaled {
  std::unique_ptr<DeviceSession> device;
  IterationState state;
  explicit Scaled(Precision precision, float scale = 1024) {
    DeviceOptions options{0, precision, 1};
    options.loss_scale = scale;
    device = emulated_backend().open(options);
    state.instance = 77;
    state.learning_rate = 1;
    begin();
  }
  void begin() {
    device->set_state(state, Lane::compute);
    ++state.iteration;
  }
  float scale() const { return emulated_loss_scales(77).back(); }
  float* upload(std::vector<float> values) const {
    float* memory = device->allocate(static_cast<int64_t>(values.size()));
    device->upload(memory, values.data(), static_cast<int64_t>(values.size()));
    return memory;
  }
  std::vector<float> download(const float* memory, int64_t n) const {
    std::vector<float> out(static_cast<std::size_t>(n));
    device->download(out.data(), memory, n);
    return out;
  }
};

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(EmulatedLossScale, MultipliesTheLossAlone) {
  Call c;
  c.function = Function::cross_entropy_backward;
  c.pass = Pass::backward_data;
  c.operands = {0, 1, 2, 3};
  c.shape = {1, 2};
  c.scalars = {1};
  for (const Precision p : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    const Scaled s(p);
    float* dx = s.device->allocate(2);
    float* const logits = s.upload({std::log(0.5F), std::log(1.5F)});
    s.device->launch(s.device->prepare(c), std::array{dx, logits, s.upload({std::log(2.0F)}), s.upload({0})},
                     s.state, Lane::compute);
    const float scale = p == Precision::fp16 ? 1024 : 1;
    const auto got = s.download(dx, 2);
    EXPECT_NEAR(got[0], -0.75F * scale, 1e-5 * scale) << name(p);
    EXPECT_NEAR(got[1], 0.75F * scale, 1e-5 * scale) << name(p);
  }
}

TEST(EmulatedLossScale, IsTakenOutOfGradients) {
  Scaled s(Precision::fp16);
  float* g = s.upload({2048, -512, 0});
  s.device->unscale(g, 3, false, Lane::compute);
  EXPECT_EQ(s.download(g, 3), (std::vector<float>{2, -0.5F, 0}));
  s.begin();
  EXPECT_EQ(s.scale(), 1024) << "all were finite";
  const Scaled whole(Precision::fp32);
  g = whole.upload({2048});
  whole.device->unscale(g, 1, false, Lane::compute);
  EXPECT_EQ(whole.download(g, 1)[0], 2048) << "there is none";
}

TEST(EmulatedLossScale, AnOverflowSkipsTheUpdateAndHalvesIt) {
  Call c;
  c.function = Function::update;
  c.pass = Pass::update;
  c.shape = {4, &optimizer("momentum") - optimizers().data()};
  c.operands = {0, 1, 2};
  for (const Precision p : {Precision::fp16, Precision::fp32}) {
    Scaled s(p);
    float *parameters = s.upload({1, 1, 1, 1}), *moments = s.upload({0, 0.5F, 0, 0.5F});
    s.device->launch(s.device->prepare(c),
                     std::array{parameters, s.upload({0.25F, kInfinite, kNan, -kInfinite}), moments}, s.state,
                     Lane::compute);
    const auto got = s.download(parameters, 4), kept = s.download(moments, 4);
    EXPECT_EQ(got[0], 0.75F);
    for (std::size_t i = 1; i < 4; ++i) {
      if (p == Precision::fp16)
        EXPECT_TRUE(got[i] == 1 && kept[i] == (i == 2 ? 0 : 0.5F)) << i;
      else
        EXPECT_FALSE(std::isfinite(got[i])) << "without a scale it is an error that must show";
    }
    s.begin();
    EXPECT_EQ(s.scale(), p == Precision::fp16 ? 512 : 1);
    s.begin();
    EXPECT_EQ(s.scale(), p == Precision::fp16 ? 512 : 1) << "once";
  }
}

TEST(EmulatedLossScale, OneThatIsNotFiniteStopsTheWholeStep) {
  Call c;
  c.function = Function::update;
  c.pass = Pass::update;
  c.shape = {2, &optimizer("sgd") - optimizers().data()};
  c.operands = {0, 1};
  Scaled s(Precision::fp16);
  const uint32_t update = s.device->prepare(c);
  float *parameters = s.upload({1, 1}), *good = s.upload({0.25F, 0.5F});
  s.device->judge(s.upload({0.5F, kInfinite}), 2, Lane::compute);  // those of other parameters
  s.device->launch(update, std::array{parameters, good}, s.state, Lane::compute);
  EXPECT_EQ(s.download(parameters, 2), (std::vector<float>{1, 1}));
  s.begin();
  EXPECT_EQ(s.scale(), 512);
  s.device->judge(good, 2, Lane::compute);
  s.device->launch(update, std::array{parameters, good}, s.state, Lane::compute);
  EXPECT_EQ(s.download(parameters, 2), (std::vector<float>{0.75F, 0.5F}));
}

TEST(EmulatedLossScale, WhatAServerWouldGetBecomesZero) {
  Scaled s(Precision::fp16);
  float* g = s.upload({1024, kInfinite, kNan});
  s.device->unscale(g, 3, true, Lane::compute);
  EXPECT_EQ(s.download(g, 3), (std::vector<float>{1, 0, 0}));
  s.begin();
  EXPECT_EQ(s.scale(), 512);
}

TEST(EmulatedLossScale, DoublesAfterTwoThousandGoodIterationsAndStaysInBounds) {
  Scaled s(Precision::fp16);
  for (int i = 0; i < 1999; ++i) s.begin();
  EXPECT_EQ(s.scale(), 1024);
  s.begin();
  EXPECT_EQ(s.scale(), 2048);
  for (int i = 0; i < 20; ++i) {
    s.device->unscale(s.upload({kNan}), 1, false, Lane::compute);
    s.begin();
  }
  EXPECT_EQ(s.scale(), 1);
}

/// A transposed convolution of any pass by its own kernel, and by that of the ordinary one that it is asked
/// of cuDNN as.
void expect_mirrored(const ConvShape& s, bool last, Precision stored) {
  const auto device = emulated_backend().open({0, Precision::fp32, 1, false});
  SplitMix64 random(5);
  const auto filled = [&](int64_t n) {
    std::vector<float> values(static_cast<std::size_t>(n));
    for (float& v : values) v = static_cast<float>(to_unit(random.next()) - 0.5);
    float* memory = device->allocate(n);
    device->upload(memory, values.data(), n);
    return memory;
  };
  float *x = filled(s.in_elements()), *y = filled(s.out_elements()), *w = filled(s.weight_elements());
  for (const Function f : {Function::conv, Function::conv_backward_data, Function::conv_backward_weights}) {
    Call call;
    call.function = f;
    call.operands = {0, 1, 2};
    call.shape = s.pack();
    call.shape.push_back(last ? 1 : 0);
    const bool weights = f == Function::conv_backward_weights;
    const int64_t n = f == Function::conv ? s.out_elements()
                      : weights           ? s.weight_elements()
                                          : s.in_elements();
    float *direct = device->allocate(n), *by_other = device->allocate(n),
          *swapped = device->allocate(s.weight_elements());
    float *from = f == Function::conv ? x : weights ? x : y, *by = weights ? y : w;
    device->launch(device->prepare(call), std::array{direct, from, by}, {}, Lane::compute);
    const Call other = exec::cuda::mirrored(call);
    EXPECT_FALSE(ConvShape::unpack({other.shape.begin(), other.shape.end() - 1}).transposed);
    const uint32_t prepared = device->prepare(other);
    if (weights) {
      device->launch(prepared, std::array{swapped, y, x}, {}, Lane::compute);
      exec::cuda::swap_weights(by_other, Precision::fp32, swapped, Precision::fp32,
                               exec::cuda::WeightSwap(call, true), nullptr);
    } else {
      exec::cuda::swap_weights(swapped, Precision::fp32, w, Precision::fp32,
                               exec::cuda::WeightSwap(call, false), nullptr);
      device->launch(prepared, std::array{by_other, from, swapped}, {}, Lane::compute);
    }
    for (int64_t i = 0; i < n; ++i)
      ASSERT_NEAR(direct[i], by_other[i], 1e-5) << name(f) << " element " << i << (last ? " last" : "");
  }
  // There and back, also of what is stored in 2 bytes.
  Call call;
  call.function = Function::conv;
  call.shape = s.pack();
  call.shape.push_back(1);
  const int64_t n = s.weight_elements();
  float *half = device->allocate(n), *there = device->allocate(n), *back = device->allocate(n);
  exec::cuda::narrow(half, w, stored, n, nullptr);
  exec::cuda::swap_weights(there, stored, half, stored, exec::cuda::WeightSwap(call, false), nullptr);
  exec::cuda::swap_weights(back, Precision::fp32, there, stored, exec::cuda::WeightSwap(call, true), nullptr);
  for (int64_t i = 0; i < n; ++i) ASSERT_NEAR(back[i], w[i], 1.0 / 256);
}

TEST(EmulatedHalf, TransposedConvolutionsAreOrdinaryOnesFromBehind) {
  ConvShape s;
  s.transposed = true;
  s.batch = 2;
  s.in_channels = 6;
  s.out_channels = 4;
  s.in = {1, 3, 4};
  s.kernel = {1, 3, 2};
  s.stride = {1, 2, 2};
  s.pad = {0, 1, 0};
  s.out = {1, 5, 8};
  for (const bool last : {true, false}) {
    for (const int64_t groups : {1, 2}) {
      s.groups = groups;
      expect_mirrored(s, last, groups == 1 ? Precision::bf16 : Precision::fp16);
    }
  }
}

/// Sixteen bytes at a time where both lie well, and what is left over.
TEST(EmulatedHalf, NarrowsAnyNumberFromAnywhere) {
  const auto device = emulated_backend().open({0, Precision::fp32, 1, false});
  constexpr int64_t kMost = 1031;
  float *from = device->allocate(kMost + 4), *half = device->allocate(kMost + 8),
        *back = device->allocate(kMost + 8);
  for (int64_t i = 0; i < kMost + 4; ++i) from[i] = static_cast<float>(i % 200) - 77;
  for (const Precision p : {Precision::bf16, Precision::fp16}) {
    for (const int64_t offset : {0, 1, 3}) {
      for (const int64_t n : {0, 1, 3, 4, 5, 1023, 1024, 1027}) {
        std::fill_n(back, kMost + 8, -1.0F);
        exec::cuda::narrow(reinterpret_cast<uint16_t*>(half) + offset, from + offset, p, n, nullptr);
        exec::cuda::upcast(back + offset, reinterpret_cast<uint16_t*>(half) + offset, p, n, nullptr);
        for (int64_t i = 0; i < n; ++i) ASSERT_EQ(back[offset + i], from[offset + i]) << n << " " << offset;
        for (int64_t i = offset + n; i < kMost + 8; ++i) ASSERT_EQ(back[i], -1) << "written behind the end";
      }
    }
  }
}

}  // namespace
}  // namespace tandem::tests
