// SPDX-License-Identifier: Apache-2.0
// Kernels measured on one GPU, priced on another.
#include "sim/cost/other_chip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "models/graph.h"
#include "schemes/setup/scheme.h"
#include "sim/cost/machine.h"
#include "tests/sim/prediction.h"

namespace tandem::tests {
namespace {

using sim::OtherChip;
using sim::same_prices;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

Kernel product(int64_t n) {
  return {KernelKind::gemm,
          Pass::forward,
          {1, n, n, n},
          Flops{2 * n * n * n},
          Bytes{8 * n * n},
          Bytes{4 * n * n},
          1};
}

Kernel pass_over(int64_t bytes) {
  return {KernelKind::elementwise,
          Pass::forward,
          {bytes / 8, 1},
          Flops{bytes / 8},
          Bytes{bytes / 2},
          Bytes{bytes / 2},
          1};
}

/// An H200 with all that a kernel's time depends on `times` as fast.
Device faster(double times) {
  Device d = Device::load("h200-sxm");
  for (FlopRate& r : d.peak) r.flops_per_second *= times;
  for (FlopRate& r : d.best_product) r.flops_per_second *= times;
  d.memory_bandwidth.bytes_per_second *= times;
  d.launch = Time::from_seconds(d.launch.seconds() / times);
  return d;
}

double ratio(const Device& other, const Kernel& k) {
  return OtherChip(Device::load("h200-sxm"), Precision::fp32, other, Precision::fp32).ratio(k);
}

/// But for what multiprocessors themselves move, a few percent of a large kernel, which stay as they are.
TEST(OtherChip, TwiceTheFiguresAreHalfTheTime) {
  EXPECT_DOUBLE_EQ(ratio(faster(1), product(4096)), 1);
  EXPECT_NEAR(ratio(faster(2), product(8192)), 0.5, 0.01);
  EXPECT_NEAR(ratio(faster(0.5), product(8192)), 2, 0.02);
  const double streamed = ratio(faster(2), pass_over(int64_t{1} << 32));
  EXPECT_GE(streamed, 0.5);
  EXPECT_LT(streamed, 0.85);
}

/// Where fp8 was not measured, what was in bf16 stands for it; every other format that was stands for itself.
TEST(OtherChip, KernelsInBf16StandForThoseInFp8) {
  using sim::MachineProfile;
  EXPECT_EQ(MachineProfile::find("h200", Precision::fp8)->origin().format, Precision::bf16);
  EXPECT_EQ(MachineProfile::find("h200", Precision::bf16)->origin().format, Precision::bf16);
  EXPECT_EQ(MachineProfile::find("h200", Precision::fp32)->origin().format, Precision::fp32);
}

/// Of kernels that were measured in bf16: large products take less long in fp8, all else as long.
TEST(OtherChip, InFp8OnlyProductsAreFaster) {
  const Device h200 = Device::load("h200-sxm");
  const OtherChip chip(h200, Precision::bf16, h200, Precision::fp8);
  EXPECT_LT(chip.ratio(product(8192)), 0.75);  // casts included
  EXPECT_GT(chip.ratio(product(8192)), 0.5);
  EXPECT_DOUBLE_EQ(chip.ratio(pass_over(int64_t{1} << 30)), 1);
  Kernel logits = product(8192);
  logits.half = true;
  EXPECT_DOUBLE_EQ(chip.ratio(logits), 1);
}

TEST(OtherChip, IsMonotone) {
  for (const Kernel& k : {product(64), product(4096), pass_over(1 << 12), pass_over(1 << 30)}) {
    double before = INFINITY;
    for (const double times : {0.25, 0.5, 1.0, 2.0, 4.0}) {
      const double now = ratio(faster(times), k);
      EXPECT_LT(now, before);
      before = now;
    }
  }
}

TEST(OtherChip, EveryFigureThatPricesCounts) {
  const Device base = Device::load("h200-sxm");
  EXPECT_TRUE(same_prices(base, base));
  const std::vector<std::function<void(Device&)>> changes = {
      [](Device& d) { d.peak[0].flops_per_second *= 1.1; },
      [](Device& d) { d.best_product[0].flops_per_second *= 1.1; },
      [](Device& d) { d.memory_bandwidth.bytes_per_second *= 1.1; },
      [](Device& d) { d.units += 1; },
      [](Device& d) { d.launch = Time::from_seconds(1e-6); },
      [](Device& d) { d.kernels = "ampere"; },
      [](Device& d) { d.vendor = "AMD"; }};
  for (const auto& change : changes) {
    Device d = base;
    change(d);
    EXPECT_FALSE(same_prices(base, d));
  }
  Device d = base;
  d.name = "another";
  d.memory.n /= 2;
  EXPECT_TRUE(same_prices(base, d)) << "a name and a size move no kernel";
}

struct Told {
  double seconds, width;
  std::vector<std::string> notes;
};

/// One worker on a system of H200s of which something is replaced.
Told told(const std::string& from = "", const std::string& to = "", const std::string& profile = "h200") {
  std::string text = read_file(TANDEM_ROOT "/topologies/systems/hgx-h200.json");
  if (!from.empty()) text.replace(text.find(from), from.size(), to);
  const System system = System::from_json(Json::parse(text, "made.json"));
  const Graph graph = Graph::load("resnet18");
  const ResolvedScheme scheme = resolve_scheme("allreduce", {});
  Request p = prediction_of(graph, system, scheme, 1, 64);
  p.profile = profile;
  const Report r = simulate(p);
  return {r.iteration.median, std::log(r.rate.interval.high / r.rate.interval.low), r.basis.extrapolates};
}

TEST(OtherChip, TheMeasuredOneTakesWhatItTook) {
  const std::string file = ::testing::TempDir() + "unnamed_device.json";
  std::string text = read_file(TANDEM_ROOT "/calibration/profiles/h200.json");
  const std::string field = "  \"device\": \"h200-sxm\",\n";
  ASSERT_NE(text.find(field), std::string::npos);
  text.erase(text.find(field), field.size());
  write_file(file, text);
  const Told named = told(), old = told("", "", file);
  EXPECT_EQ(named.seconds, old.seconds) << "a profile that does not say its device is recognised by its name";
  EXPECT_EQ(named.width, old.width);
  EXPECT_THAT(named.notes, Not(Contains(HasSubstr("measured on"))));
  const Told other = told("h200-sxm", "h100-sxm"), same = told("h200-sxm", "h100-sxm", file);
  EXPECT_EQ(other.seconds, same.seconds);
  EXPECT_THAT(other.notes, Contains(HasSubstr("kernels were measured on h200-sxm; for h100-sxm")));
}

/// Memory is 1.43 times as slow; no kernel can lose more, and products in fp32 lose nothing.
TEST(OtherChip, AnH100IsSlowerByItsMemoryAlone) {
  const Told h200 = told(), h100 = told("h200-sxm", "h100-sxm");
  EXPECT_GT(h100.seconds, h200.seconds);
  EXPECT_LT(h100.seconds, h200.seconds * 4800 / 3350);
  EXPECT_GT(h100.width, h200.width);
  EXPECT_GT(told("h200-sxm", "a100-sxm-80gb").seconds, h100.seconds);
}

TEST(OtherChip, ADeviceThatNobodyDescribesIsRefused) {
  const std::string file = ::testing::TempDir() + "unknown_device.json";
  std::string text = read_file(TANDEM_ROOT "/calibration/profiles/h200.json");
  text.replace(text.find("\"h200-sxm\""), 10, "\"h200-smx\"");
  write_file(file, text);
  try {
    told("", "", file);
    FAIL() << "a device that is not there was taken";
  } catch (const InputError& e) {
    EXPECT_THAT(e.what(), HasSubstr("Did you mean h200-sxm"));
  }
}

/// Where the H200's kernels would say how fast processors and TPUs are.
TEST(OtherChip, ThatIsNoGpuIsRefused) {
  const Graph graph = Graph::load("lenet5");
  const ResolvedScheme scheme = resolve_scheme("allreduce", {});
  for (const char* name : {"skylake-opa", "tpu-v3-pod"}) {
    const System system = System::load(name);
    Request p = prediction_of(graph, system, scheme, 1, 8);
    p.profile = "h200";
    EXPECT_THROW(simulate(p), InputError) << name;
  }
}

}  // namespace
}  // namespace tandem::tests
