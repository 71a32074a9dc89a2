// SPDX-License-Identifier: Apache-2.0
// Convolutions of 1x1 as products, against the kernels that compute any convolution.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "base/random.h"
#include "exec/device/cuda/half.h"
#include "exec/device/cuda/mirror.h"
#include "exec/device/cuda/pointwise.h"
#include "tests/exec/emulated_backend.h"
#include "tests/exec/layer_cases.h"

namespace tandem::tests {
namespace {

constexpr std::array kPasses{Function::conv, Function::conv_backward_data, Function::conv_backward_weights};

Call conv_call(Function pass, const ConvShape& s, bool last = true) {
  Call call;
  call.function = pass;
  call.operands = {0, 1, 2};
  call.shape = s.pack();
  call.shape.push_back(last ? 1 : 0);
  return call;
}

ConvShape shape_of(std::array<int64_t, 3> in, std::array<int64_t, 3> stride) {
  ConvShape s;
  s.batch = 2;
  s.in_channels = 5;
  s.out_channels = 7;
  s.in = in;
  s.stride = stride;
  for (std::size_t d = 0; d < 3; ++d) s.out[d] = (in[d] - 1) / stride[d] + 1;
  return s;
}

/// A product of numbers of 2 bytes, by our own kernel.
exec::cuda::RunProduct product_of_halves(const exec::cuda::Product& p, Precision stored) {
  Call call;
  call.function = Function::gemm;
  call.operands = {0, 1, 2};
  call.shape = {p.m, p.n, p.k, p.transpose_a ? 1 : 0, p.transpose_b ? 1 : 0, 0};
  call.half_operands = {1, 1, 1};
  const exec::cuda::Prepared gemm = exec::cuda::fallback_half(call, stored);
  return [gemm](float* c, const float* a, const float* b, const exec::cuda::Launch& l) {
    const std::array operands{c, const_cast<float*>(a), const_cast<float*>(b)};
    exec::cuda::Launch with = l;
    with.operands = operands.data();
    gemm.run(with);
  };
}

class Pointwise : public testing::Test {
 protected:
  float* filled(int64_t n) {
    std::vector<float> values(static_cast<std::size_t>(n));
    for (float& v : values) v = static_cast<float>(to_unit(random_.next()) - 0.5);
    float* memory = device_->allocate(n);
    device_->upload(memory, values.data(), n);
    return memory;
  }
  /// A copy in 2 bytes.
  float* narrowed(const float* from, int64_t n, Precision stored) {
    float* memory = device_->allocate(n / 2 + 1);
    exec::cuda::narrow(memory, from, stored, n, nullptr);
    return memory;
  }

  /// All passes, of operands stored so. Every output is written, whatever was there.
  void expect_same(const ConvShape& s, Precision stored) {
    float *x = filled(s.in_elements()), *y = filled(s.out_elements()), *w = filled(s.weight_elements());
    for (const Function pass : kPasses) {
      const bool weights = pass == Function::conv_backward_weights, forward = pass == Function::conv;
      const int64_t n = forward ? s.out_elements() : weights ? s.weight_elements() : s.in_elements();
      float *const from = forward || weights ? x : y, *const by = weights ? y : w, *direct = filled(n),
                   *got = filled(n);
      const int64_t froms = forward || weights ? s.in_elements() : s.out_elements(),
                    bys = weights ? s.out_elements() : s.weight_elements();
      const Call call = conv_call(pass, s);
      device_->launch(device_->prepare(call), std::array{direct, from, by}, {}, Lane::compute);
      const bool half = exec::cuda::is_half(stored);
      const auto made = exec::cuda::pointwise(call, stored, [&](const exec::cuda::Product& p) {
        return half ? product_of_halves(p, stored) : exec::cuda::fallback_product(p);
      });
      ASSERT_TRUE(made);
      std::vector<float> scratch(static_cast<std::size_t>(made->scratch) + 1, 77);
      if (half) {
        const std::array operands{narrowed(got, n, stored), narrowed(from, froms, stored),
                                  narrowed(by, bys, stored)};
        made->run({operands.data(), nullptr, scratch.data(), nullptr});
        exec::cuda::upcast(got, operands[0], stored, n, nullptr);
      } else {
        const std::array operands{got, from, by};
        made->run({operands.data(), nullptr, scratch.data(), nullptr});
      }
      EXPECT_EQ(scratch.back(), 77) << "written beyond its scratch";
      for (int64_t i = 0; i < n; ++i)
        ASSERT_NEAR(direct[i], got[i], half ? 0.05 : 1e-5) << name(pass) << " element " << i;
    }
  }

  std::unique_ptr<DeviceSession> device_ = emulated_backend().open({0, Precision::fp32, 1, false});
  SplitMix64 random_{9};
};

TEST_F(Pointwise, IsTheConvolution) {
  for (const Precision stored : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    expect_same(shape_of({1, 4, 3}, {1, 1, 1}), stored);
    expect_same(shape_of({1, 1, 9}, {1, 1, 1}), stored);
    expect_same(shape_of({3, 4, 5}, {1, 1, 1}), stored);
  }
}

TEST_F(Pointwise, GathersWhatStridesLeave) {
  for (const Precision stored : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    expect_same(shape_of({1, 6, 6}, {1, 2, 2}), stored);
    expect_same(shape_of({1, 7, 5}, {1, 2, 3}), stored);  // and rows and columns that none reads
    expect_same(shape_of({5, 4, 9}, {2, 1, 4}), stored);
  }
}

TEST_F(Pointwise, AMirroredTransposedConvolutionIsOne) {
  ConvShape s = shape_of({1, 3, 4}, {1, 2, 2});
  s.transposed = true;
  s.out = {1, 5, 7};
  const Call call = exec::cuda::mirrored(conv_call(Function::conv, s));
  EXPECT_TRUE(exec::cuda::pointwise(call, Precision::fp32, exec::cuda::fallback_product));
}

TEST_F(Pointwise, LeavesOtherConvolutionsAlone) {
  const auto is_one = [](const ConvShape& s, bool last) {
    return exec::cuda::pointwise(conv_call(Function::conv, s, last), Precision::fp32,
                                 exec::cuda::fallback_product)
        .has_value();
  };
  const ConvShape good = shape_of({1, 4, 4}, {1, 1, 1});
  EXPECT_TRUE(is_one(good, true));
  EXPECT_FALSE(is_one(good, false)) << "channels in front of the positions";
  ConvShape s = good;
  s.kernel = {1, 1, 2};
  EXPECT_FALSE(is_one(s, true));
  s = good;
  s.pad = {0, 1, 0};
  EXPECT_FALSE(is_one(s, true));
  s = good;
  s.in_channels = s.out_channels = s.groups = 4;
  EXPECT_FALSE(is_one(s, true));
  s = good;
  s.transposed = true;
  EXPECT_FALSE(is_one(s, true));
}

}  // namespace
}  // namespace tandem::tests
