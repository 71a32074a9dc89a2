// SPDX-License-Identifier: Apache-2.0
// Profiles of kernels whose efficiencies are known.
#include "calibration/validate/kernel_efficiency.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calibration/fit/estimates.h"
#include "schemes/setup/recipe.h"
#include "sim/cost/kernel_cost.h"
#include "tests/calibration/made_up_machine.h"

namespace tandem::tests {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kFlops = 2.0 * 4096 * 4096 * 4096, kProductBytes = 3.0 * 2 * 4096 * 4096,
                 kStreamBytes = 4.8e9, kBetween = 2e-6;

/// One product at half the H200's 989 TFLOP/s, launched three times, and one pass over 4.8 GB of memory at a
/// quarter of its 4.8 TB/s, where 2 us pass between kernels.
std::string two_kernels_text(const std::string& machine, const std::string& precision, bool counted,
                             bool gpu) {
  const auto launches = [&](int n) { return counted ? fmt::format(", \"launches\": {}", n) : std::string(); };
  const std::string kernels = fmt::format(
      R"([{{"kind": "gemm", "pass": "forward", "shape": [1, 4096, 4096, 4096], "flops": {:.0f}, "read": {:.0f},
            "written": {:.0f}, "seconds": {}{}}},
          {{"kind": "elementwise", "pass": "backward-data", "shape": [1200000000, 1], "flops": 1200000000,
            "read": {:.0f}, "written": {:.0f}, "seconds": {}{}}}])",
      kFlops, kProductBytes / 3 * 2, kProductBytes / 3, kFlops / (0.5 * 989e12) - kBetween, launches(3),
      kStreamBytes / 2, kStreamBytes / 2, kStreamBytes / (0.25 * 4.8e12) - kBetween, launches(1));
  return fmt::format(
      R"({{"schema": "tandem-profile-1", "machine": "{}", "cores": 1, "precision": "{}", "all_reduce": [],
              "copy": [], "copies": {{{}}}, "error_per_distance": 0, "error_of_several": 0,
              "op_overhead_seconds": 0, "kernel_overhead_seconds": {}, "wake_seconds": 0, "step_sigma": 0,
              "slowdown": [], "curves": [], "kernels": {}}})",
      machine, precision, gpu ? R"("pinned-to-device": [{"bytes": 1, "seconds": 1e-6}])" : "", kBetween,
      kernels);
}

Json two_kernels(const std::string& machine, const std::string& precision = "bf16", bool counted = true,
                 bool gpu = true) {
  return Json::parse(two_kernels_text(machine, precision, counted, gpu), "made.json");
}

EfficiencyTable table_of(const Json& document) {
  const Precision p = measured_precisions(document).at(0);
  return kernel_efficiency(MachineProfile(document, p), p);
}

std::string device_for(const std::string& machine, bool gpu = true) {
  const EfficiencyTable t = table_of(two_kernels(machine, gpu ? "bf16" : "fp32", true, gpu));
  return t.device ? t.device->name : "";
}

TEST(KernelEfficiency, OfKernelsAtKnownParts) {
  const EfficiencyTable t = table_of(two_kernels("NVIDIA H200, 132 processors, 1.98 GHz"));
  ASSERT_EQ(t.rows.size(), 2U);
  const KernelEfficiency &product = t.rows[0], &stream = t.rows[1];
  EXPECT_EQ(product.kind, "gemm");
  EXPECT_EQ(stream.pass, "backward-data");
  EXPECT_EQ(product.launches, 3);
  EXPECT_NEAR(product.seconds, 3 * kFlops / (0.5 * 989e12), 1e-12);
  EXPECT_NEAR(product.flops / product.seconds, 0.5 * 989e12, 1e3);
  EXPECT_NEAR(product.roofline / product.seconds, 0.5, 1e-9);
  EXPECT_NEAR(stream.bytes / stream.seconds, 1.2e12, 1e3);
  EXPECT_NEAR(stream.roofline / stream.seconds, 0.25, 1e-9);
  EXPECT_NEAR(t.between, 4 * kBetween, 1e-15);
  EXPECT_EQ(t.all.shapes, 2);
  EXPECT_EQ(t.all.launches, 4);
  EXPECT_NEAR(t.all.seconds, product.seconds + stream.seconds, 1e-15);
  EXPECT_NEAR(t.all.roofline / t.all.seconds,
              (0.5 * product.seconds + 0.25 * stream.seconds) / (product.seconds + stream.seconds), 1e-9);
}

TEST(KernelEfficiency, BesideTheStockCurves) {
  const Json document = two_kernels("NVIDIA H200");
  const EfficiencyTable t = table_of(document);
  const KernelCost cost(Device::load("h200-sxm"), Precision::bf16, "stock",
                        load_recipe("pytorch-channels-last"));
  const MachineProfile machine(document, Precision::bf16);
  const auto& samples = machine.kernels().samples();
  EXPECT_DOUBLE_EQ(t.rows[0].stock, 3 * cost.seconds(samples[0].kernel));
  EXPECT_DOUBLE_EQ(t.rows[1].stock, cost.seconds(samples[1].kernel));
}

/// A product in fp32 has the plain units' peak.
TEST(KernelEfficiency, PeaksAreThoseOfThePrecision) {
  const auto part = [](const char* precision) {
    const EfficiencyTable t = table_of(two_kernels("NVIDIA H200", precision));
    return t.rows[0].roofline / t.rows[0].seconds;
  };
  EXPECT_NEAR(part("tf32"), 0.5 * 989 / 494.5, 1e-9);
  EXPECT_NEAR(part("fp8"), 0.5 * 989 / 1979, 1e-9);
  EXPECT_NEAR(part("fp32"), 0.5 * 989 / 67, 1e-9);
}

TEST(KernelEfficiency, FindsTheDescribedDevice) {
  EXPECT_EQ(device_for("NVIDIA H200, 132 processors, 1.98 GHz, 140 GiB"), "h200-sxm");
  EXPECT_EQ(device_for("NVIDIA H100 80GB HBM3, 132 processors, 1.98 GHz, 79 GiB"), "h100-sxm");
  EXPECT_EQ(device_for("NVIDIA H100 PCIe, 114 processors, 1.75 GHz, 79 GiB"), "h100-pcie");
  EXPECT_EQ(device_for("NVIDIA A100-SXM4-40GB, 108 processors, 1.41 GHz, 39 GiB"), "a100-sxm-40gb");
  EXPECT_EQ(device_for("NVIDIA A100-SXM4-80GB, 108 processors, 1.41 GHz, 79 GiB"), "a100-sxm-80gb");
  EXPECT_EQ(device_for("Tesla V100-PCIE-32GB, 80 processors, 1.38 GHz, 31 GiB"), "v100-pcie-32gb");
  EXPECT_EQ(device_for("NVIDIA GeForce RTX 3090, 82 processors, 1.70 GHz, 24 GiB"), "rtx-3090");
  EXPECT_EQ(device_for("NVIDIA A100"), "") << "four are as like it";
  EXPECT_EQ(device_for("Tesla V100-SXM2"), "") << "two are as like it, others less";
  EXPECT_EQ(device_for("NVIDIA H999"), "");
  EXPECT_EQ(device_for("Intel H200", false), "") << "what computes in the host's memory is no GPU";
}

/// Of a processor a worker has one core, and the curves are those of its one core.
TEST(KernelEfficiency, OfAProcessorACoreCounts) {
  const Json document = two_kernels("Intel(R) Xeon(R) Platinum 8480C, 56 processors", "fp32", true, false);
  const EfficiencyTable t = table_of(document);
  ASSERT_TRUE(t.device);
  const Device whole = Device::load("xeon-platinum-8480c");
  EXPECT_EQ(t.device->name, whole.name);
  const double core = whole.peak_at(Precision::fp32).flops_per_second / whole.units;
  EXPECT_NEAR(t.rows[0].roofline / (3 * kFlops / core), 1, 1e-12);
  EXPECT_NEAR(t.rows[1].roofline / (kStreamBytes / whole.memory_bandwidth.bytes_per_second), 1, 1e-12);
  EXPECT_THAT(efficiency_basis(t), HasSubstr("one core of xeon-platinum-8480c"));
}

TEST(KernelEfficiency, CellsOfAnUndescribedDeviceHaveNoRoofline) {
  const EfficiencyTable t = table_of(two_kernels("made up"));
  EXPECT_THAT(efficiency_heads(t),
              ElementsAre("kind", "pass", "shapes", "launches", "time", "TFLOP/s", "GB/s"));
  EXPECT_EQ(efficiency_cells(t, t.all).size(), 7U);
  const auto basis = [](const char* machine) { return efficiency_basis(table_of(two_kernels(machine))); };
  EXPECT_EQ(basis("made up"),
            "The measured machine's name has no model number: no roofline and no stock curves.");
  EXPECT_THAT(basis("NVIDIA H999"), HasSubstr("with the model number H999"));
  EXPECT_THAT(basis("Tesla V100-SXM2"),
              HasSubstr("as like the measured one: v100-sxm2-16gb, v100-sxm2-32gb:"));
  EXPECT_EQ(t.all.roofline, 0);
  EXPECT_EQ(t.all.stock, 0);
}

TEST(KernelEfficiency, WithoutCountsEachShapeCountsOnce) {
  const EfficiencyTable t = table_of(two_kernels("NVIDIA H200", "bf16", false));
  EXPECT_FALSE(t.counted);
  EXPECT_EQ(t.all.launches, 2);
  EXPECT_TRUE(table_of(two_kernels("NVIDIA H200")).counted);
}

TEST(KernelEfficiency, OfNoKernelsIsRefused) {
  const auto refusal = [](const std::string& from, const std::string& to) -> std::string {
    std::string text = two_kernels_text("NVIDIA H200", "bf16", true, true);
    const auto at = text.find(from);
    text.replace(at, to.empty() ? std::string::npos : from.size(), to.empty() ? "\"kernels\": []}" : to);
    try {
      table_of(Json::parse(text, "made.json"));
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_THAT(refusal("\"kernels\"", ""), HasSubstr("no kernels of bf16 were measured on NVIDIA H200"));
  EXPECT_THAT(refusal("[1, 4096, 4096, 4096]", "[1, 4096]"), HasSubstr("made.json:"));
  EXPECT_THAT(refusal("[1, 4096, 4096, 4096]", "[1, 4096]"), HasSubstr("a product's shape has 4 numbers"));
  EXPECT_THAT(refusal("[1, 4096, 4096, 4096]", "[1, 0, 4096, 4096]"), HasSubstr("at least 1"));
  EXPECT_THAT(refusal("\"launches\": 3", "\"launches\": 0"), HasSubstr("made.json:"));
}

/// What is said of a fitted machine adds up to the kernels that its steps launched, each precision by itself.
TEST(KernelEfficiency, OfAFitAddsUpToItsSteps) {
  const Measurements m = made_in_two();
  const Json document = Json::parse(fit_machine(m).profile, "profile");
  EXPECT_THAT(measured_precisions(document), ElementsAre(Precision::fp32, Precision::bf16));
  for (const Precision p : {Precision::fp32, Precision::bf16}) {
    double seconds = 0, flops = 0;
    for (const MeasuredKernel& k : m.kernels) {
      if (k.workers != 1 || m.graphs[k.graph].precision != p) continue;
      seconds += k.median * static_cast<double>(k.kernel.repeat);
      flops += static_cast<double>(k.kernel.flops.n * k.kernel.repeat);
    }
    const EfficiencyTable t = kernel_efficiency(MachineProfile(document, p), p);
    EXPECT_NEAR(t.all.seconds / seconds, 1, 1e-9) << name(p);
    EXPECT_NEAR(t.all.flops / flops, 1, 1e-12) << name(p);
    EXPECT_TRUE(t.counted);
  }
}

}  // namespace
}  // namespace tandem::tests
