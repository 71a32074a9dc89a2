// What frameworks' overheads do to durations.
#include <gtest/gtest.h>

#include <functional>
#include <map>

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

/// Kernels lose to a collective only in the micro-batch that it runs beside.
TEST(Overheads, CollectivesSlowKernelsAsOftenAsTheyRun) {
  const auto lost = [](const char* scheme) {
    const auto with = [&](double interference) {
      return step("resnet50", scheme, 8, Precision::fp32,
                  [&](Overheads& o) { o.interference = interference; });
    };
    return with(0.5) - with(0);
  };
  const double once = lost("allreduce");
  EXPECT_GT(once, 0);
  EXPECT_NEAR(4 * lost("allreduce:accumulate=4") / once, 1, 0.02);
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

TEST(Overheads, WithoutAnOptimizerAStepIsForwardBackwardAndCommunication) {
  const Graph graph = Graph::load("vgg16");
  const System system = System::load("2080ti-pcie-8x");
  const auto report = [&](const char* scheme, int64_t devices, const char* rule) {
    const ResolvedScheme resolved = resolve_scheme(scheme, {});
    Prediction p;
    p.graph = &graph;
    p.system = &system;
    p.scheme = &resolved;
    p.devices = devices;
    p.batch = 8;
    p.optimizer = &optimizer(rule);
    p.input = false;
    p.check_memory = false;
    return simulate(p);
  };
  const auto seconds = [](const Report& r) {
    return 8.0 * static_cast<double>(r.devices) / r.samples_per_second;
  };
  const auto carried = [](const Report& r) {
    std::map<std::string, int64_t> out;
    for (const LinkUse& link : r.links) out[link.name] = link.bytes.n;
    return out;
  };
  // Alone, what is missing is at least the reading and writing of all parameters and their gradients.
  const double bytes = 3.0 * 4 * static_cast<double>(graph.parameter_elements());
  EXPECT_GT(seconds(report("allreduce", 1, "sgd")) - seconds(report("allreduce", 1, "none")),
            bytes / system.device(system.accelerators()[0]).memory_bandwidth.bytes_per_second);
  for (const char* scheme : {"allreduce", "data-parallel-master", "parameter-server", "zero", "local-sgd"}) {
    const Report none = report(scheme, 4, "none"), sgd = report(scheme, 4, "sgd");
    EXPECT_LT(seconds(none), seconds(sgd)) << scheme;
    EXPECT_EQ(carried(none), carried(sgd)) << scheme;
  }
}

/// Gradients that layers with several inputs add to those of other readers.
double sums(const Graph& graph) {
  double out = 0;
  for (const Layer& l : graph.layers())
    out += l.inputs.empty() ? 0 : static_cast<double>(l.inputs.size() - 1);
  return out;
}

double issued(const char* model, int64_t devices) {
  return step(model, "pytorch-dataparallel", devices, Precision::fp32, [](Overheads& o) {
    o = {};
    o.single_process = true;
    o.issue = Time::from_seconds(10e-3);
  });
}

TEST(Overheads, OneInterpreterIssuesForwardOfAllDevicesAndBackwardOfEach) {
  const Graph graph = Graph::load("resnet50");
  const auto layers = static_cast<double>(graph.layers().size());
  // One device: forward and backward; four: four forwards, one backward, and what travels (below 0.2 s).
  EXPECT_NEAR(issued("resnet50", 1), 10e-3 * (2 * layers + sums(graph)), 0.05 * layers * 20e-3);
  EXPECT_NEAR(issued("resnet50", 4), 10e-3 * (5 * layers + 4 * sums(graph)), 0.05 * layers * 50e-3);
}

TEST(Overheads, AConcatOfConcatsGivesEveryPieceItsGradient) {
  const auto layers = static_cast<double>(Graph::load("densenet121").layers().size());
  // Blocks of 6, 12, 24 and 16 layers; the i-th concat of a block joins i + 1 pieces.
  const double pieces = 21 + 78 + 300 + 136;
  EXPECT_NEAR(issued("densenet121", 4) - issued("densenet121", 1), 3 * 10e-3 * (layers + pieces),
              0.05 * layers * 50e-3);
}

}  // namespace
}  // namespace tandem
