// SPDX-License-Identifier: Apache-2.0
// The fit on measurements made from known parameters, and what its profile prices.
#include "calibration/fit/machine_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "calibration/fit/energy_parts.h"
#include "calibration/fit/estimates.h"
#include "tests/calibration/made_up_machine.h"

namespace tandem::tests {
namespace {

TEST(MachineFit, RecoversWhatMadeTheMeasurements) {
  const MachineFit fit = fit_machine(made());
  EXPECT_LT(fit.kernel_error, 0.01);
  const Json profile = Json::parse(fit.profile, "profile");
  for (const Json& c : profile.at("curves").items()) {
    if (c.at("samples").as_int(0) < 8) continue;
    EXPECT_LT(c.at("spread").as_real(0, 100), 0.01) << c.at("kind").as_text();
  }
  EXPECT_NEAR(profile.at("op_overhead_seconds").as_real(0, 1), kOverhead, 1e-8);
  EXPECT_NEAR(profile.at("wake_seconds").as_real(0, 1), kWake, 1e-6);
  EXPECT_NEAR(profile.at("slowdown").items()[1].at("gemm").as_real(0, 9), 1.1, 1e-6);
  EXPECT_NEAR(profile.at("slowdown").items()[1].at("elementwise").as_real(0, 9), 1.0, 1e-6);
}

TEST(MachineFit, PricesKernelsItNeverSaw) {
  const MachineFit fit = fit_machine(made());
  const MachineProfile profile(Json::parse(fit.profile, "profile"));
  const Kernel unseen = gemm(Pass::forward, 1, 48, 700, 300, 4);
  EXPECT_NEAR(profile.seconds(unseen, 1, {}) / truth(unseen), 1, 0.02);
  EXPECT_NEAR(profile.seconds(unseen, 2, {}) / truth(unseen), 1.1, 0.02);
  EXPECT_NEAR(profile.seconds(unseen, 4, {}) / truth(unseen), 2.2, 0.05)
      << "four workers take turns on two cores";
  EXPECT_NEAR(profile.copy(3e6), 3e-4, 1e-6);
  EXPECT_GT(profile.all_reduce(1e9, 2), profile.all_reduce(1e6, 2));
}

TEST(MachineFit, PricesKernelsByThoseOfTheirPrecision) {
  const Json document = Json::parse(fit_machine(made_in_two()).profile, "profile");
  const MachineProfile alone(Json::parse(fit_machine(made()).profile, "profile"));
  const MachineProfile fp32(document), bf16(document, Precision::bf16);
  for (const Kernel& k : {gemm(Pass::forward, 1, 48, 700, 300, 4), gemm(Pass::forward, 1, 8, 64, 64, 2)}) {
    EXPECT_EQ(fp32.seconds(k, 1, {}), alone.seconds(k, 1, {})) << "the other precision does not count";
    EXPECT_NEAR(bf16.seconds(k, 1, {}) / alone.seconds(k, 1, {}), 0.25, 1e-4);
    EXPECT_NEAR(bf16.seconds(k, 2, {}) / bf16.seconds(k, 1, {}), 1.1, 1e-4);
  }
  EXPECT_EQ(bf16.copy(3e6), fp32.copy(3e6));
  try {
    MachineProfile(document, Precision::fp16);
    ADD_FAILURE() << "fp16 was not measured";
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find("measured in fp32, bf16 alone, not in fp16"), std::string::npos)
        << e.what();
  }
}

/// Each kernel of these graphs takes as long as the made-up machine says, and each of a step what their steps
/// take beyond that.
TEST(MachineFit, PricesAGpusProductsAsMeasured) {
  const Measurements m = made_apart(false);
  const Json document = Json::parse(fit_machine(m).profile, "profile");
  const double each = document.at("kernel_overhead_seconds").as_real(0, 1);
  EXPECT_NEAR(each, kernel_overhead(m), 1e-15);
  EXPECT_EQ(document.at("op_overhead_seconds").as_real(0, 1), 0);
  bool products = false;
  for (const Json& c : document.at("curves").items()) {
    EXPECT_EQ(c.find("seconds_per_result") != nullptr,
              c.text("kind", "") == "gemm" || c.text("kind", "") == "conv");
    products = products || c.find("seconds_per_result") != nullptr;
  }
  EXPECT_TRUE(products);
  const MachineProfile profile(document);
  for (const MeasuredKernel& k : m.kernels) {
    if (k.workers != 1 || k.kernel.kind != KernelKind::gemm) continue;
    Kernel one = k.kernel;
    one.repeat = 1;
    EXPECT_NEAR((profile.seconds(one, 1, {}) - each) / k.median, 1, 0.02);
  }
}

/// Where the measured GPU's words fit one described device; what a profile says goes before its words.
TEST(MachineFit, NamesTheDevice) {
  Measurements m = made_apart(false);
  const auto device = [&](const std::string& machine) {
    m.machine = machine;
    return Json::parse(fit_machine(m).profile, "profile").text("device", "");
  };
  EXPECT_EQ(device("NVIDIA H200, 132 processors, 1.98 GHz"), "h200-sxm");
  EXPECT_EQ(device("NVIDIA A100"), "") << "four are as like it";
  EXPECT_EQ(device("somebody's GPU"), "");
  Json document = Json::parse(fit_machine(m).profile, "profile");
  EXPECT_EQ(MachineProfile(document).device(), "");
  document.set("machine", Json::make_text("NVIDIA H200", {}));
  EXPECT_EQ(MachineProfile(document).device(), "h200-sxm") << "a profile that was made before it said so";
  document.set("device", Json::make_text("h100-sxm", {}));
  EXPECT_EQ(MachineProfile(document).device(), "h100-sxm");
}

TEST(MachineFit, KeepsEveryWayOfCopies) {
  const Measurements m = made_apart(true);
  const std::string text = m.to_json();
  EXPECT_EQ(Measurements::from_json(Json::parse(text, "m.json")).to_json(), text);
  const Json document = Json::parse(fit_machine(m).profile, "profile");
  EXPECT_EQ(document.at("launch").at("issue_seconds").as_real(0, 1), 3e-6);
  const MachineProfile profile(document), alone(Json::parse(fit_machine(made_apart(false)).profile, "p")),
      processor(Json::parse(fit_machine(made()).profile, "p"));
  for (int way = 0; way < kCopyWays; ++way) {
    const auto w = static_cast<CopyWay>(way);
    EXPECT_NEAR(profile.copy(3e6, w) * kWays[way] / 3e6, 1, 1e-3) << name(w);
    EXPECT_EQ(processor.copy(3e6, w), processor.copy(3e6)) << "all is in one memory";
  }
  EXPECT_EQ(alone.copy(3e6, CopyWay::peer), alone.copy(3e6, CopyWay::device)) << "one GPU, shared";
  EXPECT_EQ(profile.host_update(3e6), profile.copy(3e6, CopyWay::host_update));
  EXPECT_EQ(processor.host_update(3e6), processor.copy(1.5e6)) << "none measured: a copy reads and writes";
  EXPECT_TRUE(profile.apart());
  EXPECT_FALSE(processor.apart());
  Measurements faster = m;
  for (MeasuredTransfer& t : faster.copy) t.seconds /= t.way == CopyWay::peer ? 2 : 0.5;
  faster.launch.issue = 2e-6;
  const Measurements joined = fastest_of(m, faster);
  for (std::size_t i = 0; i < m.copy.size(); ++i)
    EXPECT_EQ(joined.copy[i].seconds, std::min(m.copy[i].seconds, faster.copy[i].seconds));
  EXPECT_EQ(joined.launch.issue, 2e-6);
  EXPECT_EQ(joined.launch.round_trip, 9e-6);
  EXPECT_THROW(fastest_of(m, made_apart(false)), InputError);
}

/// Steps that move little find parameters in a cache, and update them twice as fast, whatever a tensor's
/// size.
TEST(MachineFit, PricesUpdatesByWhatAStepMovesInBetween) {
  Measurements m = made();
  std::map<uint32_t, Bytes> moved;
  for (const MeasuredKernel& k : m.kernels) {
    if (k.workers == 1) moved[k.graph] += (k.kernel.read + k.kernel.written) * k.kernel.repeat;
  }
  const auto [least, most] = std::minmax_element(
      moved.begin(), moved.end(), [](const auto& a, const auto& b) { return a.second.n < b.second.n; });
  const auto ratio = [&, most = most->second, least = least->second](int64_t elements) {
    const MachineProfile profile(Json::parse(fit_machine(m).profile, "profile"));
    const Kernel update = update_kernel(optimizer("momentum"), elements);
    return profile.seconds(update, 1, most) / profile.seconds(update, 1, least);
  };
  const double small = ratio(1000), large = ratio(300000);
  for (MeasuredKernel& k : m.kernels) {
    if (k.kernel.pass == Pass::update && moved.at(k.graph).n < most->second.n / 3) k.median /= 2;
  }
  // Not quite twice: the curve for all sizes has moved too.
  EXPECT_GT(ratio(1000) / small, 1.5);
  EXPECT_GT(ratio(300000) / large, 1.5);
}

/// Workers with a core each differ as recorded; those that share one take turns as well.
TEST(MachineFit, StepsOfWorkersVary) {
  Measurements m = made();
  const MachineProfile calm(Json::parse(fit_machine(m).profile, "profile"));
  m.workers.push_back({"mlp", {{}, {}}});
  for (int i = 0; i < 200; ++i) {
    for (std::size_t w = 0; w < 2; ++w)
      m.workers[0].steps[w].push_back(0.004 * (((i / 2) % 2 == 0) == (w < 1) ? 1.4 : 0.6));
  }
  m.turns = {0.003, 0.004};
  const MachineProfile profile(Json::parse(fit_machine(m).profile, "profile"));
  const auto first = [&](double seconds) {
    const auto series = profile.disturbance(4, seconds, false).recorded;
    EXPECT_EQ(series.size(), 2U);
    return std::vector<double>(series[0].begin(), series[0].begin() + 4);
  };
  const auto near = [](double factor) { return testing::DoubleNear(factor, 1e-6); };
  EXPECT_THAT(first(0.004), testing::ElementsAre(near(1.4), near(1.4), near(0.6), near(0.6)));
  EXPECT_THAT(first(0.008), testing::ElementsAre(near(1.4), near(0.6), near(1.4), near(0.6)));
  EXPECT_THAT(first(0.006), testing::ElementsAre(near(1.4), near(2.6 / 3), near(2.6 / 3), near(1.4)));
  EXPECT_THAT(first(0.002), testing::Each(near(1.4))) << "no shorter steps were seen";
  EXPECT_THAT(first(0.016), testing::Each(near(1))) << "they even out in a long one";
  EXPECT_EQ(profile.disturbance(4, 100, false).recorded[0].size(), 1U) << "longer than the recording";
  const Disturbance apart = calm.disturbance(2, 0.008, false), waiting = profile.disturbance(4, 0.008, true),
                    turns = profile.disturbance(4, 0.008, false);
  EXPECT_TRUE(apart.recorded.empty() && waiting.recorded.empty());
  EXPECT_NEAR(apart.iteration_sigma, 0.01, 1e-9);
  EXPECT_NEAR(waiting.iteration_sigma, 0.01, 1e-9);
  EXPECT_EQ(turns.shared.cores, 2U);
  EXPECT_THAT(turns.shared.turns, testing::ElementsAre(Time::from_seconds(0.003), Time::from_seconds(0.004)));
  EXPECT_EQ(waiting.shared.cores, 0U);
  EXPECT_EQ(turns.shared.least, Time::from_seconds(1.4e-3)) << "two processors";
  EXPECT_TRUE(profile.takes_turns(4));
  EXPECT_FALSE(profile.takes_turns(2)) << "each has a core";
  EXPECT_FALSE(calm.takes_turns(4)) << "none were measured";
}

TEST(MachineFit, WorkersHaveTheSpeedOfTheirCores) {
  Measurements m = made();
  m.workers.push_back(uneven_workers());
  const MachineProfile profile(Json::parse(fit_machine(m).profile, "profile"));
  const Disturbance d = profile.disturbance(2, 0.008, false);
  ASSERT_EQ(d.recorded.size(), 2U);
  EXPECT_NEAR(d.recorded[0][7] / d.recorded[1][7], 1.2, 1e-3);
  EXPECT_NEAR(d.recorded[0][7] + d.recorded[1][7], 2, 1e-3) << "who is slow and who fast, not how fast";
  const Disturbance waiting = profile.disturbance(2, 0.008, true);
  ASSERT_EQ(waiting.slow.size(), 2U) << "all wait for the slower";
  EXPECT_NEAR(waiting.slow[0].second, 1.2 / 1.1 / std::exp(kSigma * normal_score(2, 2)), 1e-3);
}

TEST(MachineFit, PricesRingsOverRateLimitedLinks) {
  const MachineFit fit = fit_machine(made());
  const MachineProfile profile(Json::parse(fit.profile, "profile"));
  for (const double rate : {0.0, 125e6, 1.25e9}) {
    EXPECT_NEAR(profile.tcp_message(1.5e6, rate) / tcp_step(1.5e6, rate), 1, 0.01) << rate;
  }
  EXPECT_NEAR(profile.tcp_message(1.5e7, 4e8) / tcp_step(1.5e7, 4e8), 1, 0.02) << "between two rates";
  EXPECT_NEAR(profile.tcp_message(1.5e7, 1e7) / tcp_step(1.5e7, 1e7), 1, 0.02) << "slower than any";
  EXPECT_NEAR(profile.tcp_cpu(1.5e6) / (1.5e6 * kTcpCpu), 1, 0.01);
}

TEST(MachineFit, CarriesWhatGraphsDrew) {
  Measurements m = made();
  EXPECT_EQ(Json::parse(fit_machine(m).profile, "profile").find("energy"), nullptr);
  DevicePower power;
  power.watts = 612;
  power.joules_per_step = 38.25;
  power.joules_per_sample = 1.5;
  power.readings =
      DevicePower::Readings{.source = "NVML 580.159.04", .devices = 1, .count = 15, .counter = true};
  m.graphs.at(1).power = power;
  const Measurements read = Measurements::from_json(Json::parse(m.to_json(), "m.json"));
  EXPECT_FALSE(read.graphs.at(0).power);
  EXPECT_EQ(read.graphs.at(1).power, power);
  const std::string text = fit_machine(read).profile;
  const Json profile = Json::parse(text, "profile");
  ASSERT_EQ(profile.at("energy").items().size(), 1U);
  const Json& of = profile.at("energy").items()[0];
  EXPECT_EQ(of.at("model").as_text(), m.graphs[1].model);
  EXPECT_EQ(read_power(of.at("power")), power);
  EXPECT_EQ(MachineProfile(profile).copy(3e6),
            MachineProfile(Json::parse(fit_machine(made()).profile, "p")).copy(3e6));
  // The faster of two measurements keeps what only the other one has read.
  Measurements faster = made();
  for (MeasuredGraph& g : faster.graphs) g.step_median /= 2;
  EXPECT_EQ(fastest_of(m, faster).graphs.at(1).power, power);
  EXPECT_EQ(fastest_of(faster, m).graphs.at(1).power, power);
  EXPECT_EQ(fastest_of(m, faster).graphs[1].step_median, faster.graphs[1].step_median);
}

TEST(MachineFit, SplitsEnergyByTimesOfKernels) {
  Measurements m;
  m.graphs.push_back({"a", 1, 1, 2, 4.0, 0, 0, Precision::fp32});
  m.graphs.push_back({"b", 1, 1, 0, 1.0, 0, 0, Precision::fp32});
  Kernel product = gemm(Pass::forward, 1, 48, 700, 300, 2), stream = product;
  stream.kind = KernelKind::elementwise;
  product.repeat = 2;
  m.kernels.push_back({product, 0, 1, 0.5, 0, 9, 0});
  m.kernels.push_back({stream, 0, 1, 2.0, 0, 9, 0});
  m.kernels.push_back({stream, 0, 2, 7.0, 0, 9, 0});  // of two workers
  const auto parts = energy_parts(m, 0);
  // 1 s at 0.94, 2 s at 0.8, 1 s at 0.16 of the rated power (topologies/power/devices.json)
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts[0].first, "elementwise");
  EXPECT_NEAR(parts[0].second, 1.6 / 2.7, 1e-9);
  EXPECT_EQ(parts[1].first, "gemm");
  EXPECT_NEAR(parts[1].second, 0.94 / 2.7, 1e-9);
  EXPECT_EQ(parts[2].first, "no kernel");
  EXPECT_NEAR(parts[2].second, 0.16 / 2.7, 1e-9);
  EXPECT_TRUE(energy_parts(m, 1).empty()) << "no kernel of it was timed";
}

TEST(MachineFit, RefusesNothingAndNonsense) {
  EXPECT_THROW(fit_machine({}), InputError);
  EXPECT_THROW(Measurements::from_json(Json::parse("{}", "m.json")), InputError);
  EXPECT_THROW(Measurements::from_json(Json::parse(R"({"schema":"tandem-measurements-1"})", "m.json")),
               InputError);
  EXPECT_THROW(MachineProfile(Json::parse(R"({"schema":"tandem-profile-1","cores":0})", "p.json")),
               InputError);
}

}  // namespace
}  // namespace tandem::tests
