// SPDX-License-Identifier: Apache-2.0
// The fit on measurements made from known parameters, and what a profile then predicts.
#include "calibration/fit/machine_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "models/graph.h"
#include "models/layer.h"
#include "models/optimizer.h"
#include "tests/sim/prediction.h"

namespace tandem::tests {
namespace {

using testing::HasSubstr;

constexpr double kBase = 2e-6, kPerFlop = 1e-11, kPerByte = 1e-10, kOverhead = 5e-6, kWake = 4e-5;

double truth(const Kernel& k) {
  return kBase + kPerFlop * static_cast<double>(k.flops.n) +
         kPerByte * static_cast<double>(k.read.n + k.written.n);
}

/// Two workers make products a tenth slower.
double slow(const Kernel& k) { return k.kind == KernelKind::gemm ? 1.1 : 1.0; }

/// A step of a ring over loopback; CPU seconds per byte of an all-reduce of two.
double wire_step(double bytes, double rate) { return 2e-5 + bytes * (rate > 0 ? 1 / rate : 3e-10); }
constexpr double kWireCpu = 3e-10;
constexpr double kSigma = 0.01;  ///< of steps

Measurements made() {
  Measurements m;
  m.machine = "made up";
  m.date = "2026-01-01";
  m.versions = "test";
  m.cores = 2;
  const char* models[] = {"mlp", "mlp:hidden=256", "mlp:hidden=384,layers=3", "digits-mlp", "lenet5"};
  for (const char* model : models) {
    const Graph graph = Graph::load(model);
    for (int64_t workers = 1; workers <= 2; ++workers) {
      const auto alone = static_cast<uint32_t>(m.graphs.size() - static_cast<std::size_t>(workers - 1));
      double sum = 0;
      const auto add = [&](Kernel k) {
        const double t = truth(k) * (workers == 2 ? slow(k) : 1);
        sum += t * static_cast<double>(k.repeat);
        m.kernels.push_back({k, alone, workers, t, 0, 30, 0});
      };
      for (const Lowered& l : graph.lower(32, Precision::fp32)) {
        for (const auto* list : {&l.forward, &l.backward_data, &l.backward_weights}) {
          for (const Kernel& k : *list) add(k);
        }
      }
      add(update_kernel(optimizer("momentum"), graph.parameter_elements()));
      if (workers == 2) sum *= std::exp(kSigma * normal_score(2, 2));  // both wait for the slower
      const double reduce = workers == 2 ? 2e-5 + 4e-10 * static_cast<double>(graph.parameter_elements()) : 0;
      m.graphs.push_back({model, 32, workers, 10,
                          sum + 10 * kOverhead + reduce + (workers == 2 ? 2 * kWake : 0), kSigma, reduce});
      if (workers == 2)
        m.all_reduce.push_back({2, 4.0 * static_cast<double>(graph.parameter_elements()), reduce});
    }
  }
  // Two on each core: one's long turn is the other's short one. Cores of their own: nothing to tell.
  MeasuredWorkers shared{"mlp", {{}, {}, {}, {}}};
  for (int i = 0; i < 200; ++i) {
    for (std::size_t w = 0; w < 4; ++w)
      shared.steps[w].push_back(0.004 * (((i / 2) % 2 == 0) == (w < 2) ? 1.4 : 0.6));
  }
  m.workers.push_back(shared);
  for (double bytes = 1024; bytes < 1e8; bytes *= 8) m.copy.push_back({1, bytes, bytes / 1e10});
  for (const double rate : {0.0, 125e6, 1.25e9}) {
    for (double bytes = 4096; bytes < 1e8; bytes *= 2)
      m.wire.push_back({2, rate, bytes, 2 * wire_step(bytes / 2, rate), bytes * kWireCpu});
  }
  return m;
}

/// Where the measurements' profile lies for a prediction to read.
std::string profile_of(const Measurements& m, const char* name) {
  std::string file = testing::TempDir() + "machine_fit_" + name + ".json";
  std::ofstream(file) << fit_machine(m).profile;
  return file;
}

struct Case {
  const char* model;
  const char* scheme;
  int64_t devices = 1, batch = 32;
  const char* pace = nullptr;  ///< of links between the devices, each a node of its own; none: one node
  int32_t iterations = 0;      ///< 0: as many as simulate() takes
  std::optional<Disturbance> disturbance = Disturbance{};  ///< none: as the profile has it
};

Report predict(const Case& c, const std::string& profile, Precision precision = Precision::fp32) {
  const Graph graph = Graph::load(c.model);
  const System system = c.pace == nullptr ? System::load("local")
                                          : System::load("local-nodes", {{"network.bandwidth", c.pace}});
  const ResolvedScheme scheme = resolve_scheme(c.scheme, {});
  Prediction p = prediction_of(graph, system, scheme, c.devices, c.batch);
  p.job.precision = precision;
  p.profile = profile;
  p.check_memory = false;
  if (c.iterations > 0) p.iterations = c.iterations;
  p.disturbance = c.disturbance;
  return simulate(p);
}

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

/// As made(), and behind it all graphs once more in bf16, where kernels take a quarter of the time.
Measurements made_in_two() {
  Measurements m = made();
  const auto graphs = static_cast<uint32_t>(m.graphs.size());
  for (uint32_t g = 0; g < graphs; ++g) {
    m.graphs.push_back(m.graphs[g]);
    m.graphs.back().precision = Precision::bf16;
  }
  std::vector<MeasuredKernel> halves = m.kernels;
  for (MeasuredKernel& k : halves) {
    k.graph += graphs;
    k.median /= 4;
    const double waits = k.workers == 2 ? std::exp(kSigma * normal_score(2, 2)) : 1;
    m.graphs[k.graph + static_cast<std::size_t>(k.workers) - 1].step_median -=
        3 * k.median * static_cast<double>(k.kernel.repeat) * waits;
  }
  m.kernels.insert(m.kernels.end(), halves.begin(), halves.end());
  return m;
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

TEST(MachineFit, JoinsAndKeepsPrecisions) {
  const Measurements calm = made_in_two();
  const std::string text = calm.to_json();
  EXPECT_EQ(Measurements::from_json(Json::parse(text, "m.json")).to_json(), text);
  EXPECT_EQ(made().to_json().find("precision"), std::string::npos) << "fp32 is what documents without say";
  Measurements busy = calm;
  for (MeasuredGraph& g : busy.graphs) g.step_median *= g.precision == Precision::bf16 ? 0.5 : 2;
  for (MeasuredKernel& k : busy.kernels) k.median *= 3;
  const Measurements joined = fastest_of(calm, busy);
  EXPECT_EQ(joined.kernels.front().median, calm.kernels.front().median);
  EXPECT_EQ(joined.kernels.back().median, busy.kernels.back().median) << "its graph was faster";
  std::reverse(busy.graphs.begin(), busy.graphs.end());
  EXPECT_THROW(fastest_of(calm, busy), InputError);
}

TEST(MachineFit, SaysThatAnIntervalSaysNothing) {
  const Case c{"mlp:hidden=512,layers=6", "allreduce"};
  const auto note = testing::Contains(HasSubstr("says next to nothing"));
  EXPECT_THAT(predict(c, profile_of(made(), "narrow")).notes, testing::Not(note));
  auto profile = nlohmann::json::parse(fit_machine(made()).profile);
  profile["step_sigma"] = 0.5;
  const std::string file = testing::TempDir() + "machine_fit_wide.json";
  std::ofstream(file) << profile.dump();
  const Report r = predict(c, file);
  EXPECT_GT(r.interval.high, 3 * r.interval.low);
  EXPECT_THAT(r.notes, note);
}

/// Steady load leaves no trace in the times themselves: they are all long.
TEST(MachineFit, SaysThatTheMachineWasBusy) {
  Measurements m = made();
  EXPECT_EQ(m.to_json().find("other_programs_share"), std::string::npos) << "nobody looked";
  m.load.processors = 2;
  m.load.others = 0.02;
  const Case c{"mlp:hidden=512,layers=6", "allreduce"};
  EXPECT_THAT(predict(c, profile_of(m, "quiet")).extrapolates,
              testing::Not(testing::Contains(HasSubstr("busy"))));
  m.load.others = 0.7;
  const std::string text = m.to_json();
  EXPECT_EQ(Measurements::from_json(Json::parse(text, "m.json")).to_json(), text);
  EXPECT_THAT(fit_machine(m).remarks.at(0),
              HasSubstr("busy machine: other programs took 70 % of 2 processors"));
  EXPECT_THAT(predict(c, profile_of(m, "busy")).extrapolates,
              testing::Contains(HasSubstr("busy machine: other programs took 70 % of 2 processors")));
}

TEST(MachineFit, PredictsInAMeasuredPrecisionAlone) {
  const std::string both = profile_of(made_in_two(), "precisions"), one = profile_of(made(), "fp32");
  const auto step = [&](const std::string& profile, Precision precision) {
    return predict({"mlp:hidden=512,layers=6", "allreduce"}, profile, precision).iteration_median;
  };
  EXPECT_EQ(step(both, Precision::fp32), step(one, Precision::fp32));
  EXPECT_LT(step(both, Precision::bf16), 0.4 * step(both, Precision::fp32));
  EXPECT_THROW(step(one, Precision::bf16), InputError);
}

/// Bytes per second of each way that a GPU has.
constexpr double kWays[kCopyWays] = {1e10, 5e9, 4e9, 2e9, 1e9, 1e12, 2e10};

/// The machine's workers are GPUs, `peers` of which reach each other.
Measurements made_apart(bool peers) {
  Measurements m = made();
  m.copy.clear();
  for (int way = 0; way < kCopyWays; ++way) {
    if (static_cast<CopyWay>(way) == CopyWay::peer && !peers) continue;
    for (double bytes = 1024; bytes < 1e8; bytes *= 8)
      m.copy.push_back({1, bytes, bytes / kWays[way], 0, static_cast<CopyWay>(way)});
  }
  m.launch = {3e-6, 9e-6};
  return m;
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

/// Gradients of a GPU go to a store in host memory through page-locked memory, and parameters back.
TEST(MachineFit, PricesTheWayToAStoreInHostMemory) {
  const char* model = "mlp:hidden=512,layers=6";
  const char *scheme = "parameter-server:overlap=off,shards=1",
             *on_gpu = "parameter-server:mode=async,server=gpu,overlap=off,shards=1";
  const auto step = [&](double slower, CopyWay of, bool gpu = false) {
    Measurements m = made_apart(true);
    for (MeasuredTransfer& t : m.copy) t.seconds *= t.way == of ? slower : 1;
    const std::string file = "apart_" + std::string(name(of)) + (slower > 1 ? "_slow" : "");
    return predict({model, gpu ? on_gpu : scheme, 2}, profile_of(m, file.c_str())).iteration_median;
  };
  const double bytes = 4 * static_cast<double>(Graph::load(model).parameter_elements());
  const double usual = step(1, CopyWay::memory);
  for (const CopyWay way : {CopyWay::to_device, CopyWay::from_device})
    EXPECT_NEAR((step(2, way) - usual) * kWays[static_cast<std::size_t>(way)] / bytes, 1, 0.02) << name(way);
  for (const CopyWay way : {CopyWay::pageable_to_device, CopyWay::device, CopyWay::peer})
    EXPECT_EQ(step(2, way), usual) << name(way) << " is not on the way";
  const double there = step(1, CopyWay::memory, true);
  for (const CopyWay way : {CopyWay::to_device, CopyWay::from_device})
    EXPECT_EQ(step(2, way, true), there) << name(way) << " is not on the way";
  for (const CopyWay way : {CopyWay::device, CopyWay::peer})
    EXPECT_GT(step(2, way, true), there) << name(way);
}

TEST(MachineFit, PredictsAStepAsTheSumOfItsParts) {
  const char* model = "mlp:hidden=320,layers=2";
  double step = 0;
  for (const Lowered& l : Graph::load(model).lower(32, Precision::fp32)) {
    for (const auto* list : {&l.forward, &l.backward_data, &l.backward_weights}) {
      for (const Kernel& k : *list) step += truth(k) * static_cast<double>(k.repeat);
    }
  }
  const Report r = predict({model, "allreduce"}, profile_of(made(), "profile"));
  // One update a tensor, and an overhead an op, come on top.
  EXPECT_LT(r.iteration_median, step * 1.3 + 1e-3);
  EXPECT_GT(r.iteration_median, step);
  EXPECT_TRUE(r.interval.low < r.samples_per_second && r.samples_per_second < r.interval.high);
}

/// A kernel's time comes from the turn in which its graph as a whole was fastest, also where it itself was
/// not.
TEST(MachineFit, OfTwoMeasurementsTheFasterTurnOfEachGraphCounts) {
  const Measurements calm = made();
  Measurements busy = calm;
  for (MeasuredGraph& g : busy.graphs) g.step_median *= 1.3;
  for (MeasuredKernel& k : busy.kernels) k.median *= 3;
  busy.kernels[4].median = calm.kernels[4].median / 2;
  for (MeasuredTransfer& t : busy.copy) t.seconds /= 2;
  for (const Measurements& joined : {fastest_of(calm, busy), fastest_of(busy, calm)}) {
    for (std::size_t i = 0; i < calm.kernels.size(); ++i)
      EXPECT_EQ(joined.kernels[i].median, calm.kernels[i].median);
    EXPECT_EQ(joined.graphs[0].step_median, calm.graphs[0].step_median);
    EXPECT_EQ(joined.copy[0].seconds, busy.copy[0].seconds);
    EXPECT_EQ(joined.wire.size(), calm.wire.size());
  }
  busy.graphs[calm.kernels[0].graph].step_median = calm.graphs[calm.kernels[0].graph].step_median / 2;
  EXPECT_EQ(fastest_of(calm, busy).kernels[0].median, busy.kernels[0].median);
  busy.kernels[0].median = 0;  // every launch was disturbed
  EXPECT_EQ(fastest_of(calm, busy).kernels[0].median, calm.kernels[0].median);
  busy.kernels.pop_back();
  EXPECT_THROW(fastest_of(calm, busy), InputError);
}

/// As wide as the model is far from what was measured, and wider for several workers by what the suite's own
/// steps of several are off.
TEST(MachineFit, IntervalsWidenWithTheDistanceFromMeasuredKernels) {
  Measurements m = made();
  for (MeasuredKernel& k : m.kernels) k.median *= k.graph % 4 == 0 ? 1.1 : 0.95;  // so that fits are off
  const auto width = [](const Report& r) { return std::log(r.interval.high / r.samples_per_second); };
  const auto wide = [&](const Measurements& of, const char* name, const char* model, int64_t devices) {
    return width(predict({model, "allreduce", devices}, profile_of(of, name)));
  };
  const double near = wide(m, "near", "mlp:hidden=384,layers=3", 1);
  EXPECT_GT(near, 0.016) << "runs and steps differ";
  EXPECT_GT(wide(m, "far", "mlp:hidden=4096,layers=3", 1), 2 * near);
  Measurements worse = m;
  for (std::size_t g = 0; g < m.graphs.size(); ++g) {
    if (m.graphs[g].workers == 2) worse.graphs[g].step_median *= g % 4 == 1 ? 1.5 : 0.7;
  }
  EXPECT_NEAR(wide(worse, "worse", "mlp:hidden=384,layers=3", 1), near, 1e-9);
  EXPECT_GT(wide(worse, "worse_of_two", "mlp:hidden=384,layers=3", 2),
            wide(m, "two", "mlp:hidden=384,layers=3", 2) + 0.1);
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

/// Workers that share a core get unequal turns; those with a core each do not.
TEST(MachineFit, StepsOfWorkersThatShareACoreVary) {
  const MachineProfile profile(Json::parse(fit_machine(made()).profile, "profile"));
  const auto first = [&](double seconds) {
    const auto series = profile.disturbance(4, seconds, false).recorded;
    EXPECT_EQ(series.size(), 4U);
    return std::vector<double>(series[0].begin(), series[0].begin() + 4);
  };
  const auto near = [](double factor) { return testing::DoubleNear(factor, 1e-6); };
  EXPECT_THAT(first(0.004), testing::ElementsAre(near(1.4), near(1.4), near(0.6), near(0.6)));
  EXPECT_THAT(first(0.008), testing::ElementsAre(near(1.4), near(0.6), near(1.4), near(0.6)));
  EXPECT_THAT(first(0.006), testing::ElementsAre(near(1.4), near(2.6 / 3), near(2.6 / 3), near(1.4)));
  EXPECT_THAT(first(0.002), testing::Each(near(1.4))) << "no shorter turns were seen";
  EXPECT_THAT(first(0.016), testing::Each(near(1))) << "many turns in a step even out";
  EXPECT_EQ(profile.disturbance(4, 100, false).recorded[0].size(), 1U) << "longer than the recording";
  const Disturbance apart = profile.disturbance(2, 0.008, false),
                    waiting = profile.disturbance(4, 0.008, true);
  EXPECT_TRUE(apart.recorded.empty() && waiting.recorded.empty());
  EXPECT_NEAR(apart.iteration_sigma, 0.01, 1e-9);
  EXPECT_NEAR(waiting.iteration_sigma, 0.01, 1e-9);
}

/// Worker 0 is a fifth slower than worker 1.
MeasuredWorkers unlike_workers() {
  return {"mlp", {std::vector<double>(100, 0.012), std::vector<double>(100, 0.01)}};
}

TEST(MachineFit, WorkersHaveTheSpeedOfTheirCores) {
  Measurements m = made();
  m.workers.push_back(unlike_workers());
  const MachineProfile profile(Json::parse(fit_machine(m).profile, "profile"));
  const Disturbance d = profile.disturbance(2, 0.008, false);
  ASSERT_EQ(d.recorded.size(), 2U);
  EXPECT_NEAR(d.recorded[0][7] / d.recorded[1][7], 1.2, 1e-3);
  EXPECT_NEAR(d.recorded[0][7] + d.recorded[1][7], 2, 1e-3) << "who is slow and who fast, not how fast";
  const Disturbance waiting = profile.disturbance(2, 0.008, true);
  ASSERT_EQ(waiting.slow.size(), 2U) << "all wait for the slower";
  EXPECT_NEAR(waiting.slow[0].second, 1.2 / 1.1 / std::exp(kSigma * normal_score(2, 2)), 1e-3);
}

/// The faster one is two iterations ahead before long, and waits from then on.
TEST(MachineFit, WorkersOfUnlikeSpeedMeetTheGate) {
  Measurements m = made();
  const std::string alike = profile_of(m, "alike");
  m.workers.push_back(unlike_workers());
  const std::string unlike = profile_of(m, "unlike");
  const auto staleness = [&](const char* scheme, const std::string& profile) {
    return predict({"mlp:hidden=128,layers=2", scheme, 2, 512, nullptr, 300, std::nullopt}, profile)
        .staleness.mean();
  };
  const char *gated = "parameter-server:mode=ssp,slack=2,overlap=off",
             *loose = "parameter-server:mode=async,overlap=off";
  EXPECT_GT(staleness(gated, alike), 0.95);
  EXPECT_LT(staleness(gated, unlike), 0.75);
  EXPECT_GT(staleness(loose, unlike), 0.9);
}

/// Each worker loses half a step every 25.
TEST(MachineFit, InterruptionsCostWhatTheyTake) {
  Measurements m = made();
  const std::string calm = profile_of(m, "calm");
  MeasuredWorkers& own = m.workers.emplace_back("mlp", std::vector(2, std::vector(500, 0.01)));
  for (std::size_t i = 5; i < 500; i += 25) own.steps[0][i] = own.steps[1][i + 12 < 500 ? i + 12 : 2] = 0.015;
  const std::string disturbed = profile_of(m, "disturbed");
  const auto slower = [&](const char* scheme, int64_t devices, int32_t iterations) {
    const Case c{"mlp:hidden=512,layers=6", scheme, devices, 32, nullptr, iterations, std::nullopt};
    return predict(c, calm).samples_per_second / predict(c, disturbed).samples_per_second;
  };
  EXPECT_NEAR(slower("allreduce", 1, 0), 1.02, 1e-3);
  const double both = slower("allreduce", 2, 0);
  EXPECT_LT(both, 1.04) << "the all-reduce itself is not interrupted, and noise is drawn";
  EXPECT_GT(both, 1.03) << "the slowest holds up both";
  EXPECT_NEAR(slower("parameter-server:mode=async,overlap=off", 2, 1000), 1.02, 0.005);
}

/// ... which spreads the staleness of those that do not wait for each other, and costs no time where all
/// wait.
TEST(MachineFit, TurnsSpreadStaleness) {
  Measurements measured = made();
  const std::string turns = profile_of(measured, "turns");
  measured.workers.clear();
  const std::string even = profile_of(measured, "even");
  const auto report = [&](const char* scheme, const std::string& profile) {
    return predict({"mlp:hidden=128,layers=2", scheme, 4, 32, nullptr, 300, std::nullopt}, profile);
  };
  const auto share_of_three = [](const Report& r) {
    for (const auto& bin : r.staleness.bins()) {
      if (bin.value == 3) return static_cast<double>(bin.count) / static_cast<double>(r.staleness.count());
    }
    return 0.0;
  };
  const char* async = "parameter-server:mode=async,overlap=off";
  const Report loose = report(async, turns);
  EXPECT_NEAR(loose.staleness.mean(), 3, 0.1);
  EXPECT_LT(share_of_three(loose), share_of_three(report(async, even)) - 0.2);
  const char* sync = "parameter-server:overlap=off";
  EXPECT_EQ(report(sync, turns).samples_per_second, report(sync, even).samples_per_second);
}

TEST(MachineFit, PricesRingsOverPacedLinks) {
  const MachineFit fit = fit_machine(made());
  const MachineProfile profile(Json::parse(fit.profile, "profile"));
  for (const double rate : {0.0, 125e6, 1.25e9}) {
    EXPECT_NEAR(profile.wire_message(1.5e6, rate) / wire_step(1.5e6, rate), 1, 0.01) << rate;
  }
  EXPECT_NEAR(profile.wire_message(1.5e7, 4e8) / wire_step(1.5e7, 4e8), 1, 0.02) << "between two paces";
  EXPECT_NEAR(profile.wire_message(1.5e7, 1e7) / wire_step(1.5e7, 1e7), 1, 0.02) << "slower than any";
  EXPECT_NEAR(profile.wire_cpu(1.5e6) / (1.5e6 * kWireCpu), 1, 0.01);
}

/// Seconds of the one collective of this kind in a step of two workers, without what waking costs; its bytes.
std::pair<double, double> collective(CollKind kind, const char* scheme, const char* pace,
                                     const std::string& profile) {
  const Graph graph = Graph::load("mlp");
  const System system =
      pace == nullptr ? System::load("local") : System::load("local-nodes", {{"network.bandwidth", pace}});
  const ResolvedScheme resolved = resolve_scheme(scheme, {});
  Prediction p = prediction_of(graph, system, resolved, 2);
  p.profile = profile;
  const Plan plan = make_plan(p);
  const auto& ops = plan.program->roles[0].ops;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (ops[i].kind != OpKind::collective || plan.program->collectives[ops[i].what].kind != kind) continue;
    const auto t = static_cast<std::size_t>(plan.roles[0].transfer[0][i]);
    return {plan.transfers[t].alone(plan.capacity).seconds() - 2 * kWake,
            static_cast<double>(ops[i].bytes.n)};
  }
  return {0, 0};
}

/// Of two workers in one memory each reads both halves and writes one to scatter the sums; to gather them it
/// reads one, fetches where it goes and writes that: 1.5 of the buffer either way. An all-reduce hands the
/// sums out as it makes them: 2. Over links an all-reduce is both, one after the other.
TEST(MachineFit, PricesCollectivesByWhatTheyMove) {
  const std::string profile = profile_of(made(), "kinds");
  const MachineProfile costs(Json::load(profile));
  for (const char* pace : {static_cast<const char*>(nullptr), "1Gbit/s"}) {
    const auto [all, bytes] = collective(CollKind::all_reduce, "allreduce:bucket=1TiB", pace, profile);
    const auto [scatter, same] = collective(CollKind::reduce_scatter, "zero:bucket=1TiB", pace, profile);
    const auto [gather, too] = collective(CollKind::all_gather, "zero:bucket=1TiB", pace, profile);
    ASSERT_TRUE(bytes > 0 && same == bytes && too == bytes);
    EXPECT_NEAR(scatter, pace == nullptr ? costs.all_reduce(0.75 * bytes, 2) : all / 2, 1e-9);
    EXPECT_NEAR(gather, pace == nullptr ? costs.all_reduce(0.75 * bytes, 2) : all / 2, 1e-9);
  }
  const auto [sent, bytes] = collective(CollKind::broadcast, "data-parallel-master", nullptr, profile);
  EXPECT_NEAR(sent, costs.all_reduce(1.5 * bytes, 2), 1e-9) << "one copies it all: 3 of the buffer";
}

/// A parameter server on another node: a step brings gradient and parameters over the link, one after the
/// other.
TEST(MachineFit, PricesMessagesToServersOverPacedLinks) {
  const char* model = "mlp:hidden=512,layers=6";
  const std::string profile = profile_of(made(), "server");
  const auto step = [&](const char* pace) {
    return predict({model, "parameter-server:overlap=off,shards=1", 2, 32, pace}, profile).iteration_median;
  };
  const double bytes = 4 * static_cast<double>(Graph::load(model).parameter_elements());
  EXPECT_NEAR(step("1Gbit/s") - step("10Gbit/s"), 2 * bytes * (1 / 125e6 - 1 / 1.25e9), 0.02 * bytes / 125e6);
}

/// The communication thread takes its share of a core from the kernels that it overlaps with.
TEST(MachineFit, OverlappedWireCostsCompute) {
  const char* model = "mlp:hidden=512,layers=6";
  const std::string profile = profile_of(made(), "wire");
  const auto rate = [&](const char* scheme, int64_t devices) {
    return predict({model, scheme, devices, 512, "10Gbit/s"}, profile).samples_per_second /
           static_cast<double>(devices);
  };
  const double alone = rate("allreduce", 1), overlapped = rate("allreduce:bucket=64KiB", 2),
               serial = rate("allreduce:overlap=off", 2);
  EXPECT_GT(overlapped, serial);
  const double bytes = 4.0 * static_cast<double>(Graph::load(model).parameter_elements());
  // At least the processor time of what is overlapped is lost, on two cores that both compute.
  EXPECT_GT(512 / overlapped, 512 / alone + 0.5 * bytes * kWireCpu);
}

TEST(MachineFit, MeasurementsSurviveTheirFile) {
  const Measurements m = made();
  const std::string text = m.to_json();
  EXPECT_EQ(Measurements::from_json(Json::parse(text, "m.json")).to_json(), text);
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
