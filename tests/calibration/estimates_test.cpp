// SPDX-License-Identifier: Apache-2.0
// Each estimator against values worked out by hand.
#include "calibration/fit/estimates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace tandem::tests {
namespace {

using testing::ElementsAre;

Kernel kernel(int64_t flops, int64_t bytes, KernelKind kind = KernelKind::gemm, Pass pass = Pass::forward) {
  Kernel k;
  k.kind = kind;
  k.pass = pass;
  k.shape = {1, flops, bytes, 1};
  k.flops = {flops};
  k.read = {bytes};
  return k;
}

MeasuredKernel timed(const Kernel& k, uint32_t graph, int64_t workers, double median) {
  return {k, graph, workers, median, 0, 10, 0};
}

/// One graph of one kernel of 8 ms, alone and on two workers.
Measurements two_graphs() {
  Measurements m;
  m.cores = 2;
  m.kernels = {timed(kernel(1000, 100), 0, 1, 0.008), timed(kernel(1000, 100), 0, 2, 0.01)};
  m.graphs = {{"a", 1, 1, 4, 0.009, 0, 0}, {"a", 1, 2, 4, 0.015, 0, 0.002}};
  return m;
}

TEST(Estimates, ACurveRunsThroughWhatItIsMadeOf) {
  Measurements m;
  for (const auto& [flops, bytes] : {std::pair{1000, 10}, {50000, 4000}, {200, 90000}, {900000, 300000}})
    m.kernels.push_back(timed(kernel(flops, bytes), 0, 1, 1e-6 + 2e-10 * flops + 3e-9 * bytes));
  m.kernels.push_back(timed(kernel(1000, 10), 0, 2, 7));  // of two workers: not counted
  const std::vector<KernelCurve> curves = kernel_curves(m);
  const KernelCurve& c = curves[KernelNeighbours::group(m.kernels[0].kernel)];
  EXPECT_EQ(c.samples, 4);
  EXPECT_NEAR(c.per[KernelCurve::launch], 1e-6, 1e-12);
  EXPECT_NEAR(c.per[KernelCurve::flop], 2e-10, 1e-16);
  EXPECT_NEAR(c.per[KernelCurve::byte], 3e-9, 1e-15);
  EXPECT_NEAR(c.spread, 0, 1e-9);
  for (const KernelCurve& other : curves) EXPECT_TRUE(&other == &c || other.samples == 0);
}

/// A GPU, as copies to it say.
Measurements of_gpu() {
  Measurements m;
  m.cores = 1;
  m.copy = {{1, 1024, 1e-6, 0, CopyWay::to_device}};
  return m;
}

Kernel product_of_sizes(int64_t m, int64_t n, int64_t k) {
  Kernel out;
  out.kind = KernelKind::gemm;
  out.shape = {1, m, n, k};
  out.flops.n = 2 * m * n * k;
  out.read.n = 2 * (m * k + n * k);
  out.written.n = 2 * m * n;
  return out;
}

TEST(Estimates, ProductsOnAGpuTakeTimeForResultsAndOperands) {
  Measurements m = of_gpu();
  const auto truth = [](const Kernel& k) {
    const auto rows = static_cast<double>(k.shape[1]), columns = static_cast<double>(k.shape[2]);
    const auto depth = static_cast<double>(k.shape[3]);
    const bool odd = k.shape[2] % 8 != 0 || k.shape[3] % 8 != 0;
    return 2e-6 + 2 * rows * columns * depth * (odd ? 9e-15 : 1e-15) + 2 * rows * columns * 3e-13 +
           2 * rows * depth * 2e-13 + 2 * columns * depth * 1e-13;
  };
  for (const int64_t rows : {64, 1024, 8192}) {
    for (const int64_t columns : {256, 1000, 4096, 50257}) {
      for (const int64_t depth : {64, 768, 4096}) {
        const Kernel k = product_of_sizes(rows, columns, depth);
        m.kernels.push_back(timed(k, 0, 1, truth(k)));
      }
    }
  }
  const KernelCurve c = kernel_curves(m)[KernelNeighbours::group(m.kernels[0].kernel)];
  EXPECT_TRUE(c.products);
  for (const auto& [rows, columns, depth] : {std::array{300, 512, 2048}, {16, 16, 16}, {4096, 30522, 1024}}) {
    const Kernel k = product_of_sizes(rows, columns, depth);
    EXPECT_NEAR(c.seconds(k) / truth(k), 1, 0.01);
  }
  m.copy.clear();
  const KernelCurve line = kernel_curves(m)[KernelNeighbours::group(m.kernels[0].kernel)];
  EXPECT_FALSE(line.products) << "a processor's";
  EXPECT_GT(line.spread, 0.3);
}

/// One size does not tell what of it is the start: as of all products it is little.
TEST(Estimates, AKindThatWasSeenOnceOnAGpuTakesAfterTheOthers) {
  Measurements m = of_gpu();
  for (const int64_t size : {16, 256, 1024, 4096}) {
    const Kernel k = product_of_sizes(size, size, size);
    m.kernels.push_back(timed(k, 0, 1, 3e-6 + 1e-15 * static_cast<double>(k.flops.n)));
  }
  Kernel once = product_of_sizes(512, 512, 64);
  once.kind = KernelKind::attention;
  once.shape = {8, 12, 12, 512, 512, 64, 0, 1};
  for (auto* count : {&once.flops.n, &once.read.n, &once.written.n}) *count *= 8 * 12;
  once.flops.n *= 2;
  m.kernels.push_back(timed(once, 0, 1, 60e-6));
  const KernelCurve c = kernel_curves(m)[KernelNeighbours::group(once)];
  EXPECT_NEAR(c.seconds(once) / 60e-6, 1, 0.1);
  EXPECT_LT(c.per[KernelCurve::launch], 15e-6);
}

/// Time falls with bytes here: the best curve with factors >= 0 leaves bytes out.
TEST(Estimates, ACurveHasNoNegativeFactor) {
  Measurements m;
  for (const int bytes : {1000, 2000, 4000})
    m.kernels.push_back(timed(kernel(1, bytes), 0, 1, 1e-5 - 1e-9 * bytes));
  const KernelCurve c = kernel_curves(m)[KernelNeighbours::group(m.kernels[0].kernel)];
  EXPECT_EQ(c.per[KernelCurve::byte], 0);
  for (const double rate : c.per) EXPECT_GE(rate, 0);
  EXPECT_GT(c.spread, 0.1);
}

TEST(Estimates, AKernelCountsOnceAGraphAndUpdatesAsOne) {
  Measurements m;
  Kernel update = kernel(10, 40, KernelKind::elementwise, Pass::update), other = update;
  other.shape[0] = 5;
  other.repeat = 3;
  m.kernels = {timed(kernel(1000, 100), 0, 1, 1), timed(kernel(1000, 100), 0, 1, 3),
               timed(kernel(1000, 100), 0, 1, 2), timed(update, 0, 1, 4),
               timed(other, 0, 1, 0.5),           timed(kernel(1000, 100), 1, 1, 9)};
  const std::vector<KernelSample> samples = kernel_samples(m);
  ASSERT_EQ(samples.size(), 3U);
  EXPECT_EQ(samples[0].kernel.shape[0], 1 + 3 * 5);
  EXPECT_EQ(samples[0].kernel.read.n, 4 * 40);
  EXPECT_EQ(samples[0].kernel.repeat, 1);
  EXPECT_DOUBLE_EQ(samples[0].seconds, 4 + 3 * 0.5);
  EXPECT_EQ(samples[0].step.n, 3 * 100 + 4 * 40) << "what a step of graph 0 moves";
  EXPECT_EQ(samples[0].launches, 1) << "of all together";
  EXPECT_EQ(samples[1].seconds, 2) << "the median";
  EXPECT_EQ(samples[1].launches, 3);
  EXPECT_EQ(samples[2].seconds, 9);
  EXPECT_EQ(samples[2].source, 1U);
  EXPECT_THROW(kernel_samples({}), InputError);
}

/// The same work by itself and in another kernel's launch.
TEST(Estimates, FusedKernelsCountApart) {
  Measurements m;
  Kernel fused = kernel(1000, 100);
  fused.fused = true;
  m.kernels = {timed(kernel(1000, 100), 0, 1, 3), timed(fused, 0, 1, 1), timed(fused, 0, 1, 1)};
  const std::vector<KernelSample> samples = kernel_samples(m);
  ASSERT_EQ(samples.size(), 2U);
  for (const KernelSample& s : samples) {
    EXPECT_EQ(s.seconds, s.kernel.fused ? 1 : 3);
    EXPECT_EQ(s.launches, s.kernel.fused ? 2 : 1);
  }
}

/// Two graphs of one kernel each, 10 and 40 s: each is predicted by the other's, with a curve of that alone.
TEST(Estimates, LeavingOutPredictsAGraphByTheOthers) {
  Measurements m;
  m.kernels = {timed(kernel(1000, 100), 0, 1, 10), timed(kernel(4000, 100), 1, 1, 40)};
  m.kernels[0].kernel.repeat = 2;
  const auto errors_of_each = [&] {
    std::vector<std::pair<double, double>> out;  // error, over distance
    for (const MeasuredKernel& k : m.kernels) {
      double distance = 0;
      const KernelNeighbours others = neighbours_without(m, k.graph);
      const double seconds = others.seconds(k.kernel, {200}, &distance, k.graph);
      const double error = std::abs(std::log(seconds / (k.median * static_cast<double>(k.kernel.repeat))));
      out.emplace_back(error, error / distance);
    }
    return out;
  };
  const LeaveOneOut errors = leave_one_out(m);
  auto each = errors_of_each();
  const double sum = each[0].first + each[1].first;
  EXPECT_GT(sum, 0.1);
  EXPECT_NEAR(errors.kernels, sum / 2, 1e-9);
  EXPECT_NEAR(errors.graphs, sum / 2, 1e-9) << "graphs of one kernel";
  EXPECT_NEAR(errors.per_distance, 1.4826 * (each[0].second + each[1].second) / 2, 1e-3);
  m.copy = {{1, 1e6, 1e-3, 0, CopyWay::to_device}};  // a GPU
  each = errors_of_each();
  const auto [least, most] = std::minmax(each[0].second, each[1].second);
  EXPECT_NEAR(leave_one_out(m).per_distance, (0.1 * least + 0.9 * most) / 1.645, 1e-9);
}

TEST(Estimates, SlowdownIsTheRatioOfSums) {
  Measurements m = two_graphs();
  m.kernels.push_back(timed(kernel(7, 7), 0, 1, 0.002));
  m.kernels.push_back(timed(kernel(7, 7), 0, 2, 0.002));
  m.kernels.push_back(timed(kernel(8, 8), 0, 2, 5));  // not measured alone
  m.kernels.push_back(timed(kernel(9, 9), 0, 1, 5));
  m.kernels.push_back(timed(kernel(9, 9), 0, 2, 0));  // every launch was disturbed
  m.kernels.push_back(timed(kernel(7, 7, KernelKind::elementwise), 0, 1, 1));
  m.kernels.push_back(timed(kernel(7, 7, KernelKind::elementwise), 0, 2, 0.1));
  const auto all = slowdowns(m);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_THAT(all[0], testing::Each(1));
  EXPECT_DOUBLE_EQ(all[1][static_cast<std::size_t>(KernelKind::gemm)], 0.012 / 0.01);
  EXPECT_EQ(all[1][static_cast<std::size_t>(KernelKind::elementwise)], 0.5) << "no less";
  EXPECT_EQ(all[1][static_cast<std::size_t>(KernelKind::conv)], 1) << "not measured";
}

TEST(Estimates, OverheadsAreWhatStepsTakeBeyondTheirParts) {
  Measurements m = two_graphs();
  EXPECT_DOUBLE_EQ(op_overhead(m), 0.001 / 4);
  // 15 ms - 10 of kernels - 2 of the all-reduce - 1 of ops.
  EXPECT_NEAR(wake(m), 0.001, 1e-12);
  m.graphs[0].step_spread = m.graphs[1].step_spread = 0.1;
  EXPECT_EQ(step_sigma(m), 0.1);
  EXPECT_NEAR(wake(m), 0.001 - 0.005 * (slowest_of(2, 0.1) - 1), 1e-12);
  m.cores = 1;
  EXPECT_EQ(wake(m), 0) << "two workers on one core take turns";
  m.graphs[0].step_median = 0.001;
  EXPECT_EQ(op_overhead(m), 0) << "never negative";
  EXPECT_EQ(op_overhead({}), 0);
}

TEST(Estimates, OnAGpuKernelsTakeTheirTurnsNotOps) {
  Measurements m = of_gpu();
  m.kernels = {timed(kernel(1000, 100), 0, 1, 0.003), timed(kernel(1000, 100), 0, 1, 0.005)};
  m.graphs = {{"a", 1, 1, 4, 0.009, 0, 0}};
  EXPECT_EQ(op_overhead(m), 0);
  EXPECT_NEAR(kernel_overhead(m), 0.0005, 1e-12);
  EXPECT_NEAR(error_of_overhead(m), 0, 1e-12);
  m.graphs[0].step_median = 0.004;
  EXPECT_EQ(kernel_overhead(m), 0) << "never negative";
  EXPECT_NEAR(error_of_overhead(m), 1.4826 * std::log(2), 1e-9);
  m.copy.clear();
  EXPECT_EQ(kernel_overhead(m), 0) << "a processor's ops are";
}

TEST(Estimates, ErrorOfSeveralIsWhatIsLeftOfTheirSteps) {
  Measurements m = two_graphs();
  // Kernels of 8 ms, slowed to 10, ops of 1 ms, the all-reduce of 2 and two wakes of 1 are the step of 15.
  EXPECT_NEAR(error_of_several(m), 0, 1e-12);
  m.graphs.push_back(m.graphs[0]);
  m.graphs.push_back(m.graphs[1]);
  m.graphs[3].step_median *= 1.2;
  m.kernels.push_back(timed(kernel(1000, 100), 2, 1, 0.008));
  m.kernels.push_back(timed(kernel(1000, 100), 2, 2, 0.01));
  // wake is now the median of 1 and 2.5 ms: 16.5 ms are predicted of 15 and of 18.
  EXPECT_NEAR(error_of_several(m), 1.4826 * (std::log(16.5 / 15) + std::log(18 / 16.5)) / 2, 1e-12);
}

TEST(Estimates, OfWorkersTheCalmestTurnOfEachModelCounts) {
  Measurements m;
  m.cores = 2;
  EXPECT_EQ(interrupted(m), 1);
  EXPECT_EQ(lock_step(m), 1);
  // Means 1.25 and 1 over medians of 1; the slowest of each step: 2, 1, 1, 1.
  m.workers = {{"a", {{2, 1, 1, 1}, {1, 1, 1, 1}}}};
  EXPECT_DOUBLE_EQ(interrupted(m), 1.125);
  EXPECT_DOUBLE_EQ(lock_step(m), 1.25);
  m.graphs = {{"a", 1, 1, 1, 1, 0.1, 0}};
  EXPECT_DOUBLE_EQ(lock_step(m), 1.25 / slowest_of(2, 0.1)) << "that noise is drawn";
  m.workers.push_back({"a", {{1, 1}, {1, 1}}});
  EXPECT_EQ(interrupted(m), 1) << "a calmer turn of the same model";
  m.workers.push_back({"b", {{1, 1, 4}, {1, 1, 1}}});
  EXPECT_DOUBLE_EQ(interrupted(m), 1.25) << "median of 1 and 1.5";
  m.workers.push_back({"c", {{9, 1, 1}, {9, 1, 1}, {9, 1, 1}}});
  EXPECT_DOUBLE_EQ(interrupted(m), 1.25) << "more workers than cores take turns: not counted";
}

TEST(Estimates, NoiseIsEachStepOverTheMean) {
  Measurements m;
  m.workers = {{"a", {{1, 2, 3}, {4, 5, 9}}}};
  const std::vector<StepNoise> noise = step_noise(m);
  ASSERT_EQ(noise.size(), 1U);
  EXPECT_EQ(noise[0].step, 4);
  EXPECT_THAT(noise[0].factors, ElementsAre(ElementsAre(0.25, 0.5, 0.75), ElementsAre(1, 1.25, 2.25)));
}

TEST(Estimates, TransfersAreMediansBySize) {
  const std::vector<MeasuredTransfer> list = {
      {2, 100, 5, 0, CopyWay::memory}, {2, 10, 1, 0, CopyWay::memory},  {2, 100, 7, 0, CopyWay::memory},
      {2, 100, 6, 0, CopyWay::memory}, {3, 100, 9, 0, CopyWay::memory}, {2, 100, 1, 0, CopyWay::peer}};
  const auto points = transfer_points(list, 2);
  ASSERT_EQ(points.size(), 2U);
  EXPECT_EQ(points[0].bytes, 10);
  EXPECT_EQ(points[1].bytes, 100);
  EXPECT_EQ(points[1].seconds, 6);
  EXPECT_TRUE(transfer_points(list, 4).empty());
  EXPECT_EQ(transfer_points(list, 2, CopyWay::peer).size(), 1U);
}

/// Three nodes: 2 (3 - 1) steps of a third of the bytes each.
TEST(Estimates, RingsAreStepsOfChunks) {
  Measurements m;
  m.tcp = {{3, 1e9, 300, 8, 2}, {3, 0, 300, 4, 0}};
  const auto steps = tcp_steps(m);
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[0].rate, 0);
  EXPECT_EQ(steps[1].rate, 1e9);
  EXPECT_EQ(steps[1].steps.at(0).bytes, 100);
  EXPECT_EQ(steps[1].steps.at(0).seconds, 2);
  const auto cpu = tcp_cpu_steps(m);
  ASSERT_EQ(cpu.size(), 1U) << "the other's was not measured";
  EXPECT_EQ(cpu[0].seconds, 0.5);
}

TEST(Estimates, APrecisionKeepsItsGraphsAndTheirKernels) {
  Measurements m = two_graphs();
  m.graphs.insert(m.graphs.begin(), {"b", 1, 1, 4, 1, 0, 0, Precision::bf16});
  for (MeasuredKernel& k : m.kernels) k.graph += 1;
  m.kernels.push_back(timed(kernel(1, 1), 0, 1, 1));
  const Measurements fp32 = of_precision(m, Precision::fp32), bf16 = of_precision(m, Precision::bf16);
  ASSERT_EQ(fp32.kernels.size(), 2U);
  EXPECT_EQ(fp32.kernels[0].graph, 0U) << "counted among those kept";
  EXPECT_EQ(fp32.graphs.size(), 2U);
  ASSERT_EQ(bf16.kernels.size(), 1U);
  EXPECT_EQ(bf16.graphs[0].model, "b");
}

}  // namespace
}  // namespace tandem::tests
