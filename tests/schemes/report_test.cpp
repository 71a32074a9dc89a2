// SPDX-License-Identifier: Apache-2.0
#include "schemes/report/report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>

namespace tandem::tests {
namespace {

Report sample() {
  Report r;
  r.evaluation.evaluator = "sweep";
  r.evaluation.reason = "static \xff program";  // not UTF-8: replaced, not thrown at
  r.evaluation.seed = 7;
  r.setup.inputs = {{"model", "resnet50"}, {"scheme", "allreduce"}};
  r.setup.devices = 8;
  r.setup.batch_per_device = 64;
  r.setup.samples_per_iteration = 512;
  r.rate.samples_per_second = 1402.25;
  r.rate.tokens_per_second = 2804.5;
  r.rate.interval = {1350, 1460, 0.9};
  r.iteration.median = 0.365;
  r.iteration.p05 = 0.361;
  r.iteration.p95 = 0.372;
  r.scaling.speedup = 7.7;
  r.scaling.efficiency = 0.963;
  r.scaling.base_devices = 2;
  r.staleness.all.add(0, 10);
  r.staleness.all.add(3, 30);
  r.staleness.by_worker.resize(2);
  r.staleness.by_worker[0].add(0, 10);
  r.staleness.by_worker[1].add(3, 30);
  r.time.share = {0.6, 0.1, 0.06, 0.1, 0.02, 0.01, 0.08, 0.03};
  r.time.communication_kinds = {{"all-reduce", 0.05}, {"copy", 0.01}};
  r.time.waiting_for = {{"worker 1 on gpu1", 0.1}};
  r.time.kernels = {{"conv", "forward", 0.5, 0.2}};
  r.time.slowed = 0.1;
  r.rate.errors = {{"kernels of vgg16 on v100", 0.1}, {"run to run", 0.01}};
  r.memory = {{1}, {2}, {3}, {4}, {5}, {6}, {100}, {22}, {23}};
  r.memory_by_role = {{"master", 1, r.memory}};
  r.bottleneck = {"links.pcie.bandwidth", "31 % of the step", 0.31, 0.8, 0.52};
  r.network.busiest = {"pcie0", 0.31, {1234}};
  r.network.links = {{"pcie0", 0.31, {1234}}};
  r.network.groups = {{"node*/pcie0", 12, 0.25, 0.31, {14000}}};
  r.basis.calibrated = true;
  r.basis.extrapolates = {"batch 512"};
  r.notes = {"a note"};
  r.time.power = DevicePower{.watts = 512.5,
                             .low = 450,
                             .high = 600,
                             .joules_per_step = 1496.5,
                             .joules_per_sample = 2.92,
                             .parts = {{"gemm", 0.75}, {"whatever runs", 0.25}},
                             .readings = DevicePower::Readings{.source = "NVML 580.159.04",
                                                               .devices = 2,
                                                               .count = 61,
                                                               .counter = true,
                                                               .least = 95.25,
                                                               .most = 701,
                                                               .clock_mhz = 1890,
                                                               .memory_mhz = 3201,
                                                               .celsius = 61,
                                                               .held_by_power = 0.25,
                                                               .held_by_heat = 0,
                                                               .seconds = 0.0004}};
  r.goodput = {.share = 0.9,
               .share_by_events = 0.91,
               .samples_per_second = 1262,
               .mtbf = 1e5,
               .checkpoint_bytes = {1234},
               .checkpoint = 2.5,
               .interval = 700,
               .interval_steps = 1917,
               .optimal_interval = 704.7,
               .restart = 300,
               .repair = 3600,
               .spares = 2,
               .elastic = true,
               .times = {0.9, 0.02, 0.03, 0.03, 0.01, 0.01},
               .fewer_devices = 7,
               .fewer_samples_per_second = 1250,
               .alternatives = {{0, false, 0.5, 0.51}, {1, true, 0.8, 0.81}}};
  r.evaluation.events = 99;
  r.evaluation.wall_seconds = 0.01;
  r.timeline = {{"worker", "compute", "forward fc1", 1, 2, 0.5, 0.75}};
  return r;
}

std::string text_of(const Report& r, bool reproducible = false) { return reports_to_json({r}, reproducible); }

TEST(Report, HasTheContractsSchema) {
  const Json document = Json::parse(text_of(sample()), "report.json");
  EXPECT_EQ(document.at("schema").as_text(), "tandem-reports-2");
  const Json& j = document.at("reports").items()[0];
  for (const char* key : {"engine",
                          "evaluator",
                          "tandem_version",
                          "seed",
                          "inputs",
                          "devices",
                          "samples_per_iteration",
                          "recipe",
                          "fits",
                          "tokens_per_second",
                          "speedup_base_devices",
                          "samples_per_second",
                          "samples_per_second_interval",
                          "iteration_seconds",
                          "speedup",
                          "scaling_efficiency",
                          "staleness",
                          "time_share",
                          "memory_bytes_per_device",
                          "bottleneck",
                          "links",
                          "calibrated",
                          "extrapolates",
                          "simulated_events",
                          "run"}) {
    EXPECT_NE(j.find(key), nullptr) << key;
  }
  EXPECT_DOUBLE_EQ(j.at("samples_per_second_interval").at("level").as_real(), 0.9);
  EXPECT_DOUBLE_EQ(j.at("iteration_seconds").at("p95").as_real(), 0.372);
  EXPECT_DOUBLE_EQ(j.at("staleness").at("mean").as_real(), 2.25);
  EXPECT_EQ(j.at("staleness").at("max").as_int(), 3);
  EXPECT_EQ(j.at("staleness").at("by_worker").items()[1].at("mean").as_real(), 3);
  EXPECT_EQ(j.at("staleness").at("histogram").items()[1].at("versions").as_int(), 3);
  EXPECT_EQ(j.at("staleness").at("histogram").items()[1].at("count").as_int(), 30);
  EXPECT_DOUBLE_EQ(j.at("time_share").at("exposed_communication").as_real(), 0.06);
  EXPECT_EQ(j.at("memory_bytes_per_device").at("total").as_int(), 21);
  EXPECT_TRUE(j.at("memory_bytes_per_device").at("fits").as_bool());
  double sum = 0;
  for (const auto& [part, share] : j.at("time_share").members()) sum += share.as_real();
  EXPECT_DOUBLE_EQ(sum, 1);
  EXPECT_EQ(j.at("bottleneck").at("resource").as_text(), "links.pcie.bandwidth");
  EXPECT_DOUBLE_EQ(j.at("bottleneck").at("elasticity").as_real(), 0.8);
  EXPECT_DOUBLE_EQ(j.at("bottleneck").at("gain_if_unlimited").as_real(), 0.52);
  EXPECT_EQ(j.at("links").items()[0].at("bytes").as_int(), 1234);
  EXPECT_EQ(j.at("inputs").at("batch_per_device").as_int(), 64);
  EXPECT_EQ(j.at("run").keys(), std::vector<std::string>{"wall_seconds"});
}

TEST(Report, ErrorsThatTwoPredictionsShareCancelInTheirRatio) {
  Report a, b;
  a.rate.samples_per_second = 100;
  b.rate.samples_per_second = 200;
  a.rate.errors = {{"kernels of resnet50", 0.2}, {std::string(kRunToRun), 0.01}};
  b.rate.errors = {{"kernels of resnet50", 0.17}, {"communication", 0.04}, {std::string(kRunToRun), 0.01}};
  const auto sigma = [&] {
    const Report::Interval i = ratio_interval(a, b);
    EXPECT_NEAR(std::sqrt(i.low * i.high), 2, 1e-12);
    return std::log(i.high / i.low) / 2 / 1.645;
  };
  EXPECT_NEAR(sigma(), std::sqrt(0.03 * 0.03 + 0.04 * 0.04 + 2 * 0.01 * 0.01), 1e-12);
  b.rate.errors[0].source = "kernels of vgg16";
  EXPECT_NEAR(sigma(), std::sqrt(0.2 * 0.2 + 0.17 * 0.17 + 0.04 * 0.04 + 2 * 0.01 * 0.01), 1e-12);
  a.rate.errors.clear();  // an execution
  a.rate.interval = {99, 101, 0.9};
  EXPECT_NEAR(sigma(), std::hypot(std::log(101.0 / 99) / 2 / 1.645, std::hypot(std::hypot(0.17, 0.04), 0.01)),
              1e-12);
}

TEST(Report, ErrorsToEitherSideStayApartInARatio) {
  Report a, b;
  a.rate.samples_per_second = b.rate.samples_per_second = 100;
  b.rate.errors = {{"communication", 0.2, 0.05}};
  const auto sigmas = [&] {
    const Report::Interval i = ratio_interval(a, b);
    return std::pair{-std::log(i.low) / 1.645, std::log(i.high) / 1.645};
  };
  const auto expect = [&](double below, double above) {
    EXPECT_NEAR(sigmas().first, below, 1e-12);
    EXPECT_NEAR(sigmas().second, above, 1e-12);
  };
  expect(0.2, 0.05);
  std::swap(a, b);
  expect(0.05, 0.2);
  b.rate.errors = {{"communication", 0.3, 0.01}};  // slow links cost b more, and fast ones give a more
  expect(0.1, 0);
  b.rate.errors = {{"communication", 0.3, 0.11}};
  expect(0.1, 0.06);
  const Report read = reports_from_json(Json::parse(text_of(b), "r.json")).front();
  EXPECT_EQ(read.rate.errors.front().above, 0.11);
}

TEST(Report, ReadsBackWhatItWrote) {
  const std::string text = text_of(sample());
  EXPECT_EQ(reports_to_json(reports_from_json(Json::parse(text, "r.json")), false), text);
}

TEST(Report, OfAModelThatDoesNotFitHoldsNoResults) {
  Report r = sample();
  r.fits = false;
  r.memory.capacity = {20};
  const std::string text = text_of(r);
  const Json document = Json::parse(text, "r.json");
  const Json& j = document.at("reports").items()[0];
  EXPECT_FALSE(j.at("fits").as_bool());
  EXPECT_EQ(j.at("needs_bytes").as_int(), r.memory.needed().n);
  for (const char* key : {"samples_per_second", "speedup", "time_share", "bottleneck", "links"})
    EXPECT_EQ(j.at(key).kind(), Json::Kind::null) << key;
  EXPECT_EQ(reports_to_json(reports_from_json(document), false), text);
}

TEST(Report, ReproducibleLeavesOutTheRun) {
  Report slow = sample();
  slow.evaluation.wall_seconds = 5;
  EXPECT_EQ(text_of(slow, true), text_of(sample(), true));
  EXPECT_NE(text_of(slow), text_of(sample()));
}

TEST(Report, RefusesNumbersThatJsonLacks) {
  Report r = sample();
  r.scaling.speedup = std::numeric_limits<double>::infinity();
  EXPECT_THROW(text_of(r), std::logic_error);
}

TEST(Report, FilesHoldOneDocumentOfThisVersion) {
  const std::string path = testing::TempDir() + "/reports.json";
  write_file(path, reports_to_json({sample(), sample()}, false));
  EXPECT_EQ(load_reports(path).size(), 2U);
  write_file(path, text_of(sample()));
  EXPECT_EQ(load_reports(path).size(), 1U);
  for (const char* text : {R"({"schema": "tandem-check-1"})", R"({"schema": "tandem-report-1"})",
                           R"({"schema": "tandem-reports-2", "reports": []})"}) {
    write_file(path, text);
    EXPECT_THROW(load_reports(path), InputError) << text;
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace tandem::tests
