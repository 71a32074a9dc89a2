// What frameworks' overheads do to durations.
#include <gtest/gtest.h>

#include <functional>

#include "sim/simulate.h"

namespace tandem {
namespace {

double step(const char* model, const char* scheme, int64_t devices, Precision precision,
            const std::function<void(Overheads&)>& change) {
  const Graph graph = Graph::load(model);
  const System system = System::load("2080ti-pcie-8x");
  ResolvedScheme resolved = resolve_scheme(scheme, {});
  change(resolved.overheads);
  Prediction p;
  p.graph = &graph;
  p.system = &system;
  p.scheme = &resolved;
  p.devices = devices;
  p.batch = 8;
  p.precision = precision;
  p.optimizer = &optimizer("momentum", {});
  p.input = false;
  p.check_memory = false;
  return static_cast<double>(p.batch * devices) / simulate(p).samples_per_second;
}

TEST(Overheads, StalledNormalisationSlowsHalfPrecisionWithItOnSeveralDevices) {
  const auto ratio = [](const char* model, int64_t devices, Precision precision) {
    const auto with = [&](double stall) {
      return step(model, "tf-replicated-no-xla", devices, precision,
                  [&](Overheads& o) { o.norm_stall = stall; });
    };
    return with(1) / with(0);
  };
  EXPECT_GT(ratio("resnet50", 2, Precision::fp16), 1.02);
  EXPECT_GT(ratio("resnet50", 8, Precision::fp16), ratio("resnet50", 2, Precision::fp16));
  EXPECT_EQ(ratio("resnet50", 1, Precision::fp16), 1);
  EXPECT_EQ(ratio("resnet50", 8, Precision::fp32), 1);
  EXPECT_EQ(ratio("vgg16", 8, Precision::fp16), 1);
}

TEST(Overheads, CopyingTheModuleCountsFromWhereItOutlastsTheBroadcast) {
  const auto with = [](int64_t devices, Time replicate) {
    return step("resnet50", "pytorch-dataparallel", devices, Precision::fp32,
                [&](Overheads& o) { o.replicate = replicate; });
  };
  const auto layers = static_cast<double>(Graph::load("resnet50").layers().size());
  const Time long_copy = Time::from_seconds(1e-3), longer = Time::from_seconds(1.1e-3);
  EXPECT_EQ(with(1, long_copy), with(1, {}));
  EXPECT_NEAR(with(4, longer) - with(4, long_copy), 0.1e-3 * layers * 4, 1e-4 * layers * 4 * 0.01);
  EXPECT_NEAR(with(4, Time::from_seconds(1e-9)) / with(4, {}), 1, 1e-3);
}

TEST(Overheads, OneInterpreterIssuesForwardOfAllDevicesAndBackwardOfEach) {
  const auto with = [](int64_t devices) {
    return step("resnet50", "pytorch-dataparallel", devices, Precision::fp32, [](Overheads& o) {
      o = {};
      o.single_process = true;
      o.issue = Time::from_seconds(10e-3);
    });
  };
  const auto layers = static_cast<double>(Graph::load("resnet50").layers().size());
  // One device: forward and backward; four: four forwards, one backward, and what travels (below 0.2 s).
  EXPECT_NEAR(with(1), 20e-3 * layers, 0.05 * layers * 20e-3);
  EXPECT_NEAR(with(4), 50e-3 * layers, 0.05 * layers * 50e-3);
}

}  // namespace
}  // namespace tandem
