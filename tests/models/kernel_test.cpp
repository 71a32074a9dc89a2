// SPDX-License-Identifier: Apache-2.0
#include "models/layers/kernel.h"

#include "tests/models/helpers.h"

namespace tandem::tests {
namespace {

TEST(Kernel, EveryKindAndPassHasAName) {
  std::vector<std::string_view> names;
  for (int i = 0; i < kKernelKinds; ++i) {
    names.push_back(name(static_cast<KernelKind>(i)));
    EXPECT_FALSE(summary(static_cast<KernelKind>(i)).empty());
  }
  for (int i = 0; i < kPasses; ++i) names.push_back(name(static_cast<Pass>(i)));
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::unique(names.begin(), names.end()), names.end());
}

ConvShape sample() {
  ConvShape s;
  s.batch = 2, s.in_channels = 6, s.out_channels = 9, s.groups = 3;
  s.in = {1, 8, 10}, s.out = {1, 4, 5}, s.kernel = {1, 3, 2}, s.stride = {1, 2, 2}, s.dilation = {1, 2, 1},
  s.pad = {0, 1, 0};
  return s;
}

TEST(ConvShape, PacksAndUnpacksEveryField) {
  ConvShape s = sample();
  s.transposed = true;
  const auto packed = s.pack();
  EXPECT_EQ(packed.size(), 23U);
  const ConvShape back = ConvShape::unpack(packed);
  EXPECT_EQ(back.pack(), packed);
  EXPECT_EQ(back.stride, s.stride);
  EXPECT_EQ(back.pad, s.pad);
  EXPECT_TRUE(back.transposed);
}

TEST(ConvShape, CountsMultiplyAdds) {
  ConvShape s = sample();
  EXPECT_EQ(s.in_elements(), 2 * 6 * 80);
  EXPECT_EQ(s.out_elements(), 2 * 9 * 20);
  EXPECT_EQ(s.weight_elements(), 6 * 9 / 3 * 6);
  EXPECT_EQ(s.macs(), 2 * 9 * 20 * (6 / 3) * 6);  // per output: its group's channels times the kernel
  s.transposed = true;
  EXPECT_EQ(s.macs(), 2 * 6 * 80 * (9 / 3) * 6);  // per input: the same seen from the other side
}

TEST(KernelMakers, CountFlopsAndBytes) {
  const Kernel g = gemm(Pass::forward, 3, 4, 5, 6, 2);
  EXPECT_EQ(g.flops.n, 2 * 3 * 4 * 5 * 6);
  EXPECT_EQ(g.read.n, 2 * 3 * (4 * 6 + 6 * 5));
  EXPECT_EQ(g.written.n, 2 * 3 * 4 * 5);
  const Kernel e = elementwise(Pass::backward_data, 100, 3, 4, 2);
  EXPECT_EQ(e.flops.n, 200);
  EXPECT_EQ(e.read.n, 1200);
  EXPECT_EQ(e.written.n, 400);
  const Kernel r = reduction(Pass::backward_weights, 100, 5, 4);
  EXPECT_EQ(r.read.n, 400);
  EXPECT_EQ(r.written.n, 20);
  const ConvShape s = sample();
  const Kernel f = convolution(Pass::forward, s, 4);
  const Kernel d = convolution(Pass::backward_data, s, 4);
  const Kernel w = convolution(Pass::backward_weights, s, 4);
  EXPECT_EQ(f.flops, d.flops);
  EXPECT_EQ(f.flops, w.flops);
  EXPECT_EQ(f.read.n, 4 * (s.in_elements() + s.weight_elements()));
  EXPECT_EQ(d.written.n, 4 * s.in_elements());
  EXPECT_EQ(w.written.n, 4 * s.weight_elements());
  EXPECT_EQ(w.read.n, 4 * (s.in_elements() + s.out_elements()));
}

TEST(KernelMakers, RefuseSizesThatOverflow) {
  EXPECT_THROW(gemm(Pass::forward, 1, 1 << 30, 1 << 30, 1 << 30, 4), InputError);
  EXPECT_THROW(elementwise(Pass::forward, INT64_MAX / 2, 1, 4), InputError);
  EXPECT_THROW(product({1LL << 40, 1LL << 40}), InputError);
}

}  // namespace
}  // namespace tandem::tests
