// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/kernel_cost.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace tandem::tests {
namespace {

/// The datasheet of a Tesla V100 SXM2, with the architecture left open.
Device device(const std::string& architecture) {
  Device d;
  d.name = "test-device";
  d.architecture = d.kernels = architecture;
  d.peak[static_cast<std::size_t>(Precision::fp32)] = {15.7e12};
  d.peak[static_cast<std::size_t>(Precision::fp16)] = {125e12};
  d.memory_bandwidth = {900e9};
  d.units = 80;
  d.launch = Time::from_seconds(4e-6);
  return d;
}

Kernel gemm(int64_t m, int64_t n, int64_t k, int64_t size = 4) {
  return {KernelKind::gemm,
          Pass::forward,
          {1, m, n, k},
          Flops{2 * m * n * k},
          Bytes{size * (m * k + k * n)},
          Bytes{size * m * n},
          1};
}

Kernel conv(Pass pass, int64_t batch, int64_t channels, int64_t space, int64_t window, int64_t stride,
            int64_t groups = 1) {
  ConvShape s;
  s.batch = batch;
  s.in_channels = s.out_channels = channels;
  s.groups = groups;
  s.in = {1, space, space};
  s.out = {1, space / stride, space / stride};
  s.kernel = {1, window, window};
  s.stride = {1, stride, stride};
  s.pad = {0, window / 2, window / 2};
  return {KernelKind::conv,
          pass,
          s.pack(),
          Flops{2 * s.macs()},
          Bytes{4 * (s.in_elements() + s.weight_elements())},
          Bytes{4 * s.out_elements()},
          1};
}

Kernel stream(KernelKind kind, Pass pass, std::vector<int64_t> shape, int64_t bytes) {
  return {kind, pass, std::move(shape), Flops{bytes / 4}, Bytes{bytes / 2}, Bytes{bytes / 2}, 1};
}

std::vector<Kernel> one_of_each() {
  std::vector<Kernel> all{gemm(4096, 4096, 4096),
                          gemm(1, 1, 1),
                          gemm(1000000, 8, 8),
                          stream(KernelKind::norm, Pass::forward, {64, 100000}, 51200000),
                          stream(KernelKind::softmax, Pass::forward, {64, 1000}, 512000),
                          stream(KernelKind::elementwise, Pass::forward, {1000000, 1}, 8000000),
                          stream(KernelKind::pool, Pass::backward_data, {64, 3136, 784, 9}, 800000),
                          stream(KernelKind::embedding, Pass::forward, {128, 1024, 30522}, 1000000),
                          stream(KernelKind::optimizer, Pass::update, {25000000, 1}, 500000000),
                          {KernelKind::attention,
                           Pass::forward,
                           {8, 16, 16, 512, 512, 64, 0, 0},
                           Flops{4LL * 8 * 16 * 512 * 512 * 64},
                           Bytes{3 * 8 * 512 * 1024 * 4},
                           Bytes{8 * 512 * 1024 * 4},
                           1}};
  for (Pass pass : {Pass::forward, Pass::backward_data, Pass::backward_weights}) {
    for (int64_t window : {1, 3, 7}) {
      for (int64_t stride : {1, 2}) all.push_back(conv(pass, 32, 64, 56, window, stride));
    }
    all.push_back(conv(pass, 32, 64, 56, 3, 1, 64));
    all.push_back(conv(pass, 32, 64, 56, 3, 1, 32));
  }
  return all;
}

const std::vector<std::string> kArchitectures{"kepler", "maxwell", "pascal", "volta",     "turing",
                                              "ampere", "ada",     "hopper", "blackwell", "unheard-of"};

TEST(KernelCost, NeverBelowTheRoofline) {
  for (const std::string& a : kArchitectures) {
    const Device d = device(a);
    for (Precision p : {Precision::fp32, Precision::fp16}) {
      const KernelCost cost(d, p);
      for (const Kernel& k : one_of_each()) {
        const double seconds = cost.seconds(k);
        ASSERT_TRUE(std::isfinite(seconds));
        const double bytes = static_cast<double>(k.read.n + k.written.n);
        EXPECT_GE(seconds, bytes / 900e9);
        EXPECT_GE(seconds, static_cast<double>(k.flops.n) / d.peak_at(p).flops_per_second / 2.25);
        EXPECT_GE(seconds, 4e-6) << "a launch takes time";
        const bool winograd = k.kind == KernelKind::conv && ConvShape::unpack(k.shape).kernel[2] == 3;
        if (!winograd) {
          EXPECT_GE(seconds, static_cast<double>(k.flops.n) / d.peak_at(p).flops_per_second);
        }
      }
    }
  }
}

TEST(KernelCost, OfATpuInFp32DiffersFromBf16ByItsBytesOnly) {
  const Device d = Device::load("tpu-v3");
  const KernelCost full(d, Precision::fp32), half(d, Precision::bf16);
  for (const Kernel& k : one_of_each()) {
    if (k.kind != KernelKind::conv && k.kind != KernelKind::gemm) continue;
    EXPECT_LT(full.seconds(k), 2.1 * half.seconds(k)) << name(k.kind) << " " << name(k.pass);
  }
}

TEST(KernelCost, RepeatsMultiply) {
  const KernelCost cost(device("volta"), Precision::fp32);
  for (Kernel k : one_of_each()) {
    const double once = cost.seconds(k);
    k.repeat = 7;
    // All tensors of an update go in one launch, of 4 us here.
    const double launches = k.kind == KernelKind::optimizer ? 6 * 4e-6 : 0;
    EXPECT_DOUBLE_EQ(cost.seconds(k) + launches, 7 * once);
  }
}

/// A recipe with fused kernels moves fewer bytes, but of those that no framework fuses.
TEST(KernelCost, FusingLeavesKernelsThatStandApart) {
  const Device h100 = Device::load("h100-sxm");
  Recipe recipe;
  const KernelCost eager(h100, Precision::bf16, "stock", recipe);
  recipe.matrix.stream = 2;
  const KernelCost fused(h100, Precision::bf16, "stock", recipe);
  Kernel k{KernelKind::elementwise, Pass::forward, {1 << 28, 1}, Flops{0}, Bytes{1 << 29}, Bytes{1 << 29}};
  EXPECT_LT(fused.seconds(k), 0.55 * eager.seconds(k));
  k.apart = true;
  EXPECT_EQ(fused.seconds(k), eager.seconds(k));
}

TEST(KernelCost, GrowsWithTheBatch) {
  for (const std::string& a : kArchitectures) {
    const KernelCost cost(device(a), Precision::fp32);
    for (Pass pass : {Pass::forward, Pass::backward_data, Pass::backward_weights}) {
      double before = 0;
      for (int64_t batch = 1; batch <= 4096; batch *= 2) {
        const double now = cost.seconds(conv(pass, batch, 256, 28, 3, 1));
        EXPECT_GE(now, before);
        before = now;
      }
    }
  }
}

TEST(KernelCost, SmallProductsUseLessOfTheDevice) {
  const KernelCost cost(device("volta"), Precision::fp32);
  const auto rate = [&](const Kernel& k) { return static_cast<double>(k.flops.n) / cost.seconds(k); };
  EXPECT_GT(rate(gemm(8192, 8192, 8192)), 0.6 * 15.7e12);
  EXPECT_GT(rate(gemm(8192, 8192, 8192)), 1.5 * rate(gemm(512, 512, 512)));
  EXPECT_GT(rate(gemm(8192, 8192, 8192)), 2 * rate(gemm(8192, 8192, 16)));
}

/// DeepBench, Tesla V100 PCIe, fp32: single kernels within the scatter of libraries.
TEST(KernelCost, AgreesWithDeepBench) {
  const KernelCost cost(device("volta"), Precision::fp32);
  const auto near = [&](const Kernel& k, double milliseconds, double factor) {
    const double ratio = cost.seconds(k) * 1e3 / milliseconds;
    EXPECT_GT(ratio, 1 / factor);
    EXPECT_LT(ratio, factor);
  };
  near(gemm(5124, 9124, 2560), 17.1, 1.3);
  near(gemm(1760, 128, 1760), 0.100, 2.0);
}

TEST(KernelCost, ThreeByThreeGainsFromWinogradInFp32Only) {
  const KernelCost fp32(device("volta"), Precision::fp32);
  const auto per_flop = [](const KernelCost& c, const Kernel& k) {
    return c.seconds(k) / static_cast<double>(k.flops.n);
  };
  const Kernel three = conv(Pass::forward, 64, 256, 56, 3, 1), five = conv(Pass::forward, 64, 256, 56, 5, 1);
  EXPECT_LT(per_flop(fp32, three), 0.8 * per_flop(fp32, five));
  const KernelCost fp16(device("volta"), Precision::fp16);
  EXPECT_GT(per_flop(fp16, three), 0.9 * per_flop(fp16, five));
}

/// What a kernel takes in channel by channel, beyond channels last: its operands read and written once more.
TEST(KernelCost, OperandsOfConvolutionsAreCopiedInTwoBytes) {
  Device d = device("volta");
  d.vendor = "NVIDIA";
  Recipe last, first;
  last.matrix.convolution = first.convolutions.copied = 1.5;
  const KernelCost in_nchw(d, Precision::fp16, "stock", first), in_nhwc(d, Precision::fp16, "stock", last);
  for (const Pass pass : {Pass::forward, Pass::backward_data, Pass::backward_weights}) {
    const Kernel k = conv(pass, 64, 256, 56, 3, 1);
    const Kernel copy = stream(KernelKind::elementwise, Pass::forward, {1, 1}, 2 * k.read.n);
    const double expected = KernelCost(d, Precision::fp16).seconds(copy) - d.launch.seconds();
    EXPECT_NEAR(in_nchw.seconds(k) - in_nhwc.seconds(k), expected, 1e-3 * expected);
  }
  // Neither other formats, nor convolutions in groups, nor other vendors' libraries.
  const auto changes = [&](Precision precision, int64_t groups) {
    const Kernel k = conv(Pass::forward, 64, 256, 56, 3, 1, groups);
    return KernelCost(d, precision, "stock", first).seconds(k) != KernelCost(d, precision).seconds(k);
  };
  EXPECT_TRUE(changes(Precision::fp16, 1));
  EXPECT_FALSE(changes(Precision::fp32, 1));
  EXPECT_FALSE(changes(Precision::fp16, 32));
  d.vendor = "AMD";
  EXPECT_FALSE(changes(Precision::fp16, 1));
}

TEST(KernelCost, HalfPrecisionWithoutMatrixUnitsComputesInFp32) {
  Device d = device("pascal");
  d.peak[static_cast<std::size_t>(Precision::fp16)] = {0.2e12};  // the GeForce rate that no library uses
  const Kernel big = gemm(4096, 4096, 4096);
  EXPECT_LE(KernelCost(d, Precision::fp16).seconds(gemm(4096, 4096, 4096, 2)),
            KernelCost(d, Precision::fp32).seconds(big));
  const Device v = device("volta");
  EXPECT_LT(KernelCost(v, Precision::fp16).seconds(big), 0.4 * KernelCost(v, Precision::fp32).seconds(big));
  EXPECT_EQ(KernelCost(v, Precision::bf16).seconds(big), KernelCost(v, Precision::fp32).seconds(big))
      << "no bf16 on volta";
}

Recipe with_groups(const char* rate) {
  Recipe r;
  r.convolutions.grouped_gradients = parse_flop_rate(rate);
  return r;
}

TEST(KernelCost, WeightsGradientsOfGroupsRunAtTheRateOfTheRecipe) {
  Device d = device("volta");
  d.vendor = "NVIDIA";
  const KernelCost slow(d, Precision::fp16, "stock", with_groups("10GFLOP/s")), other(d, Precision::fp16);
  const Kernel few = conv(Pass::backward_weights, 64, 240, 28, 3, 1, 10);
  const double seconds = static_cast<double>(few.flops.n) / (10e9 * d.units);
  EXPECT_NEAR(slow.seconds(few), seconds + d.launch.seconds(), 1e-9);
  EXPECT_GT(slow.seconds(few), 2 * other.seconds(few));
  // 128 channels a group: twice the rate of 64.
  const Kernel wide = conv(Pass::backward_weights, 64, 1280, 14, 3, 1, 10);
  EXPECT_NEAR(slow.seconds(wide), static_cast<double>(wide.flops.n) / (20e9 * d.units) + d.launch.seconds(),
              1e-9);
  // Not those by 32, one channel each, in one group, of other passes or in fp32.
  for (const Kernel& k :
       {conv(Pass::backward_weights, 64, 256, 28, 3, 1, 32),
        conv(Pass::backward_weights, 64, 240, 28, 3, 1, 240), conv(Pass::backward_weights, 64, 240, 28, 3, 1),
        conv(Pass::backward_data, 64, 240, 28, 3, 1, 10), conv(Pass::forward, 64, 240, 28, 3, 1, 10)})
    EXPECT_EQ(slow.seconds(k), other.seconds(k));
  EXPECT_EQ(KernelCost(d, Precision::fp32, "stock", with_groups("10GFLOP/s")).seconds(few),
            KernelCost(d, Precision::fp32).seconds(few));
  Device amd = d;  // has no cuDNN
  amd.vendor = "AMD";
  EXPECT_EQ(KernelCost(amd, Precision::fp16, "stock", with_groups("10GFLOP/s")).seconds(few),
            other.seconds(few));
}

TEST(KernelCost, WhatRunsInANormTakesWhatItMovesBesides) {
  Recipe fuses;
  fuses.fuses.norms = true;
  const KernelCost alone(device("volta"), Precision::fp32),
      fused(device("volta"), Precision::fp32, "stock", fuses);
  const int64_t n = 10'000'000;
  Kernel relu{KernelKind::elementwise, Pass::forward, {n, 1}, Flops{n}, Bytes{4 * n}, Bytes{4 * n}, 1};
  Kernel add{KernelKind::elementwise, Pass::forward, {n, 2}, Flops{n}, Bytes{8 * n}, Bytes{4 * n}, 1};
  EXPECT_EQ(fused.seconds(relu), alone.seconds(relu));  // not after a norm
  relu.fused = add.fused = true;
  EXPECT_EQ(fused.seconds(relu), 0);
  EXPECT_GT(fused.seconds(add), 0.25 * alone.seconds(add));
  EXPECT_LT(fused.seconds(add), 0.6 * alone.seconds(add));
  EXPECT_GT(alone.seconds(relu), 0);  // other recipes launch it
  EXPECT_EQ(launches(fuses, add), 0);
  EXPECT_EQ(launches(Recipe{}, add), 1);
}

TEST(KernelCost, ChipsOfOneArchitectureMayHaveCurvesOfTheirOwn) {
  Device d = device("ampere");
  const double a100 = KernelCost(d, Precision::fp16).seconds(gemm(4096, 4096, 4096, 2));
  d.kernels = "ampere-ga10x";
  EXPECT_NE(KernelCost(d, Precision::fp16).seconds(gemm(4096, 4096, 4096, 2)), a100);
  EXPECT_EQ(Device::load("rtx-3090").kernels, "ampere-ga10x");
  EXPECT_EQ(Device::load("a100-sxm-40gb").kernels, "ampere");
}

TEST(KernelCost, SaysWhatItAssumes) {
  EXPECT_TRUE(KernelCost(device("volta"), Precision::fp32).extrapolates().empty());
  const KernelCost unknown(device("unheard-of"), Precision::fp32);
  ASSERT_EQ(unknown.extrapolates().size(), 1u);
  EXPECT_NE(unknown.extrapolates()[0].find("unheard-of"), std::string::npos);
  EXPECT_GT(unknown.relative_error(), KernelCost(device("volta"), Precision::fp32).relative_error());
}

TEST(KernelCost, RefusesADeviceWithoutRates) {
  Device d = device("volta");
  d.peak = {};
  EXPECT_THROW(KernelCost(d, Precision::fp32), InputError);
}

/// The L4 has 72 W for 58 multiprocessors: its products reach half of the datasheet (device file).
TEST(KernelCost, ABoardShortOfPowerMultipliesAsItsBestProduct) {
  const Device l4 = Device::load("l4");
  Device stated = l4;
  stated.best_product = {};
  const Kernel k = gemm(8192, 8192, 8192, 2);
  const auto rate = [&](const Device& d, Precision p) {
    return static_cast<double>(k.flops.n) / KernelCost(d, p).seconds(k);
  };
  for (const Precision p : {Precision::bf16, Precision::fp32}) {
    const double best = l4.best_product[static_cast<std::size_t>(p)].flops_per_second;
    EXPECT_NEAR(rate(l4, p) / best, 1, 0.05) << name(p);
    EXPECT_GT(rate(stated, p), 1.5 * best) << name(p);
  }
}

}  // namespace
}  // namespace tandem::tests
