// SPDX-License-Identifier: Apache-2.0
// What is predicted by the profile of a machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "schemes/program/lane_order.h"
#include "tests/calibration/made_up_machine.h"

namespace tandem::tests {
namespace {

using testing::HasSubstr;

TEST(MachinePredictions, SaysThatAnIntervalSaysNothing) {
  const Case c{"mlp:hidden=512,layers=6", "allreduce"};
  const auto note = testing::Contains(HasSubstr("says next to nothing"));
  EXPECT_THAT(predict(c, profile_of(made(), "narrow")).notes, testing::Not(note));
  auto profile = nlohmann::json::parse(fit_machine(made()).profile);
  profile["step_sigma"] = 0.5;
  const std::string file = testing::TempDir() + "machine_fit_wide.json";
  std::ofstream(file) << profile.dump();
  const Report r = predict(c, file);
  EXPECT_GT(r.rate.interval.high, 3 * r.rate.interval.low);
  EXPECT_THAT(r.notes, note);
}

/// Steady load leaves no trace in the times themselves: they are all long.
TEST(MachinePredictions, SaysThatTheMachineWasBusy) {
  Measurements m = made();
  EXPECT_EQ(m.to_json().find("other_programs_share"), std::string::npos) << "nobody looked";
  m.load.processors = 2;
  m.load.others = 0.02;
  const Case c{"mlp:hidden=512,layers=6", "allreduce"};
  EXPECT_THAT(predict(c, profile_of(m, "quiet")).basis.extrapolates,
              testing::Not(testing::Contains(HasSubstr("busy"))));
  m.load.others = 0.7;
  const std::string text = m.to_json();
  EXPECT_EQ(Measurements::from_json(Json::parse(text, "m.json")).to_json(), text);
  EXPECT_THAT(fit_machine(m).remarks.at(0),
              HasSubstr("busy machine: other programs took 70 % of 2 processors"));
  EXPECT_THAT(predict(c, profile_of(m, "busy")).basis.extrapolates,
              testing::Contains(HasSubstr("busy machine: other programs took 70 % of 2 processors")));
}

/// As where the device ran at a third of its speed while half of the graphs were measured.
TEST(MachinePredictions, SaysThatGraphsContradictEachOther) {
  const auto contradiction = testing::Contains(HasSubstr("contradict those of others"));
  Measurements m = made();
  EXPECT_THAT(fit_machine(m).remarks, testing::Not(contradiction));
  for (MeasuredKernel& k : m.kernels) {
    if (k.graph % 4 < 2) k.median *= 3;
  }
  EXPECT_THAT(fit_machine(m).remarks, contradiction);
}

TEST(MachinePredictions, PredictsInAMeasuredPrecisionAlone) {
  const std::string both = profile_of(made_in_two(), "precisions"), one = profile_of(made(), "fp32");
  const auto step = [&](const std::string& profile, Precision precision) {
    return predict({"mlp:hidden=512,layers=6", "allreduce"}, profile, precision).iteration.median;
  };
  EXPECT_EQ(step(both, Precision::fp32), step(one, Precision::fp32));
  EXPECT_LT(step(both, Precision::bf16), 0.4 * step(both, Precision::fp32));
  EXPECT_THROW(step(one, Precision::bf16), InputError);
}

/// Gradients of a GPU go to a store in host memory through page-locked memory, and parameters back.
TEST(MachinePredictions, PricesTheWayToAStoreInHostMemory) {
  const char* model = "mlp:hidden=512,layers=6";
  const char *scheme = "parameter-server:overlap=off,shards=1",
             *on_gpu = "parameter-server:mode=async,server=gpu,overlap=off,shards=1";
  const auto step = [&](double slower, CopyWay of, bool gpu = false) {
    Measurements m = made_apart(true);
    for (MeasuredTransfer& t : m.copy) t.seconds *= t.way == of ? slower : 1;
    const std::string file = "apart_" + std::string(name(of)) + (slower > 1 ? "_slow" : "");
    return predict({model, gpu ? on_gpu : scheme, 2}, profile_of(m, file.c_str())).iteration.median;
  };
  const double bytes = 4 * static_cast<double>(Graph::load(model).parameter_elements());
  const double usual = step(1, CopyWay::memory);
  for (const CopyWay way : {CopyWay::to_device, CopyWay::from_device})
    EXPECT_NEAR((step(2, way) - usual) * kWays[static_cast<std::size_t>(way)] / bytes, 1, 0.02) << name(way);
  for (const CopyWay way : {CopyWay::pageable_to_device, CopyWay::device, CopyWay::peer})
    EXPECT_EQ(step(2, way), usual) << name(way) << " is not on the way";
  EXPECT_GT(step(2, CopyWay::host_update), usual) << "the server's step";
  const double there = step(1, CopyWay::memory, true);
  for (const CopyWay way : {CopyWay::to_device, CopyWay::from_device})
    EXPECT_EQ(step(2, way, true), there) << name(way) << " is not on the way";
  for (const CopyWay way : {CopyWay::device, CopyWay::peer})
    EXPECT_GT(step(2, way, true), there) << name(way);
}

/// One slow enough to be the limit: nobody waits for a computation, or a copy from or to a GPU.
TEST(MachinePredictions, AStoreInHostMemoryTakesItsCopiesSumsAndUpdates) {
  constexpr double kSlow = 1000;
  const char* model = "mlp:hidden=512,layers=6";
  Measurements m = made_apart(true);
  for (MeasuredTransfer& t : m.copy)
    t.seconds *= t.way == CopyWay::memory || t.way == CopyWay::host_update ? kSlow : 1;
  const std::string profile = profile_of(m, "slow_host");
  const double bytes = 4 * static_cast<double>(Graph::load(model).parameter_elements());
  const auto at = [&](CopyWay way) { return kSlow * bytes / kWays[static_cast<std::size_t>(way)]; };
  const double copy = at(CopyWay::memory), moves = at(CopyWay::host_update), update = 5 * moves;
  for (const int64_t workers : {2, 4}) {
    const auto step = [&](const char* scheme) {
      return predict({model, scheme, workers}, profile).iteration.median;
    };
    const auto n = static_cast<double>(workers);
    EXPECT_NEAR(
        step("parameter-server:overlap=off,shards=1") / (n * copy + copy + (n - 1) * 3 * moves + update), 1,
        0.01)
        << "answers, the first gradient, those added to it, a step";
    EXPECT_NEAR(step("parameter-server:mode=async,overlap=off,shards=1") / (n * (update + copy)), 1, 0.01);
  }
}

/// Kernels of workers that share a GPU begin in each other's starts, or do not.
TEST(MachinePredictions, WorkersOfOneGpuTakeBetweenTwoBounds) {
  const std::string profile = profile_of(made_apart(false), "shared_gpu");
  const auto gpu = sim::MachineProfile::find(profile, Precision::fp32);
  Kernel k;
  k.shape = {1 << 20, 1};
  const auto shared = [&](int64_t workers) { return gpu->seconds(k, workers, {}); };
  double part = 1;
  for (const int64_t elements : {1 << 10, 1 << 16, 1 << 24}) {
    k.flops.n = elements;
    k.read.n = k.written.n = 4 * elements;
    const double alone = shared(2), unknown = gpu->seconds_unknown(k, 6, {});
    EXPECT_GT(unknown, 0);
    EXPECT_NEAR((shared(6) + unknown) / (3 * alone), 1, 1e-9) << "one after another";
    EXPECT_GE(shared(6) - unknown, alone * (1 - 1e-9)) << "as long as the work of all, and one start";
    EXPECT_LT(unknown / alone, part) << "large kernels fill a GPU";
    part = unknown / alone;
    EXPECT_EQ(gpu->seconds_unknown(k, 2, {}), 0) << "a GPU each";
  }
  const auto width = [&](int64_t workers) {
    const Report r = predict({"mlp:hidden=320,layers=2", "allreduce", workers}, profile);
    return r.rate.interval.high / r.rate.interval.low;
  };
  EXPECT_GT(width(4), width(2));
}

/// What was measured of one GPU says what many such take: kernels as measured, on a GPU each, and between
/// them the system's links instead of the measured machine's memory.
TEST(MachinePredictions, MeasuredKernelsOnADescribedSystem) {
  const std::string profile = profile_of(made_apart(false), "one_gpu");
  const auto told = [&](const char* system, int64_t devices) {
    return predict({"mlp:hidden=320,layers=2", "allreduce", devices}, profile, Precision::fp32, system);
  };
  const Report here = told("local", 1), one = told("hgx-h200", 1), eight = told("hgx-h200", 8),
               slow = told("v100-mesh-1ib", 8);
  EXPECT_EQ(one.iteration.median, here.iteration.median);
  EXPECT_GT(eight.iteration.median, one.iteration.median);
  EXPECT_LT(eight.iteration.median, slow.iteration.median);
  EXPECT_GT(told("local", 8).iteration.median, 3 * eight.iteration.median)
      << "there eight share what was measured";
  Measurements named = made_apart(false);
  named.machine = "NVIDIA H200, 132 processors";
  const auto strange = [&](const char* system) {
    const Report r = predict({"mlp:hidden=320,layers=2", "allreduce", 8}, profile_of(named, "named"),
                             Precision::fp32, system);
    return std::count_if(r.basis.extrapolates.begin(), r.basis.extrapolates.end(),
                         [](const std::string& note) {
                           return note.find("measured on h200-sxm; for v100") != std::string::npos;
                         });
  };
  EXPECT_EQ(strange("hgx-h200"), 0);
  EXPECT_EQ(strange("v100-mesh-1ib"), 1);
}

/// One worker's ops run one after another: each its kernels and an overhead.
TEST(MachinePredictions, AStepOfOneIsTheSumOfItsParts) {
  const Graph graph = Graph::load("mlp:hidden=320,layers=2");
  const ResolvedScheme scheme = resolve_scheme("allreduce", {});
  const Program program = scheme.scheme->compile(
      make_workload(graph, 32, Precision::fp32, optimizer("momentum"), false), {1, 1, 1}, scheme.options);
  double step = 0;
  for (const Op& op : program.roles[0].ops) {
    ASSERT_EQ(op.kind, OpKind::compute);
    step += kOverhead;
    for (const Kernel& k : program.tasks[op.what].kernels) step += truth(k) * static_cast<double>(k.repeat);
  }
  const Report r = predict({"mlp:hidden=320,layers=2", "allreduce"}, profile_of(made(), "profile"));
  EXPECT_NEAR(r.iteration.median / step, 1, 1e-6) << "the made-up machine has a straight curve";
  EXPECT_TRUE(r.rate.interval.low < r.rate.samples_per_second &&
              r.rate.samples_per_second < r.rate.interval.high);
}

/// As wide as the model is far from what was measured, and wider for several workers by what the suite's own
/// steps of several are off.
TEST(MachinePredictions, IntervalsWidenWithTheDistanceFromMeasuredKernels) {
  Measurements m = made();
  for (MeasuredKernel& k : m.kernels) k.median *= k.graph % 4 == 0 ? 1.1 : 0.95;  // so that fits are off
  const auto width = [](const Report& r) {
    return std::log(r.rate.interval.high / r.rate.samples_per_second);
  };
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

/// The faster one is two iterations ahead before long, and waits from then on.
TEST(MachinePredictions, WorkersOfDifferentSpeedMeetTheGate) {
  Measurements m = made();
  const std::string alike = profile_of(m, "alike");
  m.workers.push_back(uneven_workers());
  const std::string unlike = profile_of(m, "unlike");
  const auto staleness = [&](const char* scheme, const std::string& profile) {
    return predict({"mlp:hidden=128,layers=2", scheme, 2, 512, nullptr, 300, std::nullopt}, profile)
        .staleness.all.mean();
  };
  const char *gated = "parameter-server:mode=ssp,slack=2,overlap=off",
             *loose = "parameter-server:mode=async,overlap=off";
  EXPECT_GT(staleness(gated, alike), 0.95);
  EXPECT_LT(staleness(gated, unlike), 0.75);
  EXPECT_GT(staleness(loose, unlike), 0.9);
}

/// Each worker loses half a step every 25.
TEST(MachinePredictions, InterruptionsCostWhatTheyTake) {
  Measurements m = made();
  const std::string calm = profile_of(m, "calm");
  MeasuredWorkers& own =
      m.workers.emplace_back(MeasuredWorkers{"mlp", std::vector(2, std::vector(500, 0.01))});
  for (std::size_t i = 5; i < 500; i += 25) own.steps[0][i] = own.steps[1][i + 12 < 500 ? i + 12 : 2] = 0.015;
  const std::string disturbed = profile_of(m, "disturbed");
  const auto slower = [&](const char* scheme, int64_t devices, int32_t iterations) {
    const Case c{"mlp:hidden=512,layers=6", scheme, devices, 32, nullptr, iterations, std::nullopt};
    return predict(c, calm).rate.samples_per_second / predict(c, disturbed).rate.samples_per_second;
  };
  EXPECT_NEAR(slower("allreduce", 1, 0), 1.02, 1e-3);
  const double both = slower("allreduce", 2, 0);
  EXPECT_LT(both, 1.04) << "the all-reduce itself is not interrupted, and noise is drawn";
  EXPECT_GT(both, 1.03) << "the slowest holds up both";
  EXPECT_NEAR(slower("parameter-server:mode=async,overlap=off", 2, 1000), 1.02, 0.005);
}

/// Turns on shared cores spread the staleness of workers that do not wait for each other, and cost no time
/// where all wait. A worker with a core to itself sends its model when a turn of its own computation ends.
TEST(MachinePredictions, TurnsSpreadStaleness) {
  Measurements measured = made();
  const std::string even = profile_of(measured, "even");
  measured.turns = {0.003, 0.0041, 0.0037};
  const std::string turns = profile_of(measured, "turns");
  const auto report = [&](const char* scheme, const std::string& profile, int64_t workers = 4) {
    return predict({"lenet5", scheme, workers, 64, nullptr, 300, std::nullopt}, profile);
  };
  const auto share_of = [](int64_t versions, const Report& r) {
    for (const auto& bin : r.staleness.all.bins()) {
      if (bin.value == versions)
        return static_cast<double>(bin.count) / static_cast<double>(r.staleness.all.count());
    }
    return 0.0;
  };
  const char* async = "parameter-server:mode=async,overlap=off";
  const Report loose = report(async, turns);
  EXPECT_NEAR(loose.staleness.all.mean(), 3, 0.1);
  EXPECT_LT(share_of(3, loose), share_of(3, report(async, even)) - 0.2);
  const Report late = report("gossip", turns, 2);
  EXPECT_NEAR(late.staleness.all.mean(), 2, 0.05);
  EXPECT_LT(share_of(2, late), share_of(2, report("gossip", even, 2)) - 0.05);
  const char* sync = "parameter-server:overlap=off";
  EXPECT_EQ(report(sync, turns).rate.samples_per_second, report(sync, even).rate.samples_per_second);
}

/// Seconds of the one collective of this kind in a step of two workers, without what waking costs; its bytes.
std::pair<double, double> collective(CollKind kind, const char* scheme, const char* rate_limit,
                                     const std::string& profile) {
  const Graph graph = Graph::load("mlp");
  const System system = rate_limit == nullptr
                            ? System::load("local")
                            : System::load("local-nodes", {{"network.bandwidth", rate_limit}});
  const ResolvedScheme resolved = resolve_scheme(scheme, {});
  Request p;
  p.job.graph = &graph;
  p.system = &system;
  p.job.scheme = &resolved;
  p.devices = 2;
  p.job.optimizer = &optimizer("momentum");
  p.job.input = false;
  p.profile = profile;
  const BoundProgram plan = make_plan(p);
  const auto& ops = plan.program->roles[0].ops;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (ops[i].kind != OpKind::collective || plan.program->collectives[ops[i].what].kind != kind) continue;
    const auto t = static_cast<std::size_t>(plan.roles[0].transfer[0][i]);
    const double wakes = schemes::one_after_another(*plan.program, plan.program->roles[0]) ? 0 : 2;
    return {plan.transfers[t].alone(plan.capacity).seconds() - wakes * kWake,
            static_cast<double>(ops[i].bytes.n)};
  }
  return {0, 0};
}

/// Of two workers in one memory each reads both halves and writes one to scatter the sums; to gather them it
/// reads one, fetches where it goes and writes that: 1.5 of the buffer either way. An all-reduce hands the
/// sums out as it makes them: 2. Over links an all-reduce is both, one after the other.
TEST(MachinePredictions, PricesCollectivesByWhatTheyMove) {
  const std::string profile = profile_of(made(), "kinds");
  const MachineProfile costs(Json::load(profile));
  for (const char* rate_limit : {static_cast<const char*>(nullptr), "1Gbit/s"}) {
    const auto [all, bytes] = collective(CollKind::all_reduce, "allreduce:bucket=1TiB", rate_limit, profile);
    const auto [scatter, same] =
        collective(CollKind::reduce_scatter, "zero:bucket=1TiB", rate_limit, profile);
    const auto [gather, too] = collective(CollKind::all_gather, "zero:bucket=1TiB", rate_limit, profile);
    ASSERT_TRUE(bytes > 0 && same == bytes && too == bytes);
    EXPECT_NEAR(scatter, rate_limit == nullptr ? costs.all_reduce(0.75 * bytes, 2) : all / 2, 1e-9);
    EXPECT_NEAR(gather, rate_limit == nullptr ? costs.all_reduce(0.75 * bytes, 2) : all / 2, 1e-9);
  }
  const auto [sent, bytes] = collective(CollKind::broadcast, "data-parallel-master", nullptr, profile);
  EXPECT_NEAR(sent, costs.all_reduce(1.5 * bytes, 2), 1e-9) << "one copies it all: 3 of the buffer";
}

/// A parameter server on another node: a step brings gradient and parameters over the link, one after the
/// other.
TEST(MachinePredictions, PricesMessagesToServersOverRateLimitedLinks) {
  const char* model = "mlp:hidden=512,layers=6";
  const std::string profile = profile_of(made(), "server");
  const auto step = [&](const char* rate_limit) {
    return predict({model, "parameter-server:overlap=off,shards=1", 2, 32, rate_limit}, profile)
        .iteration.median;
  };
  const double bytes = 4 * static_cast<double>(Graph::load(model).parameter_elements());
  EXPECT_NEAR(step("1Gbit/s") - step("10Gbit/s"), 2 * bytes * (1 / 125e6 - 1 / 1.25e9), 0.02 * bytes / 125e6);
}

/// The communication thread takes its share of a core from the kernels that it overlaps with.
TEST(MachinePredictions, OverlappedTcpCostsCompute) {
  const char* model = "mlp:hidden=512,layers=6";
  const std::string profile = profile_of(made(), "tcp");
  const auto rate = [&](const char* scheme, int64_t devices) {
    return predict({model, scheme, devices, 512, "10Gbit/s"}, profile).rate.samples_per_second /
           static_cast<double>(devices);
  };
  const double alone = rate("allreduce", 1), overlapped = rate("allreduce:bucket=64KiB", 2),
               serial = rate("allreduce:overlap=off", 2);
  EXPECT_GT(overlapped, serial);
  const double bytes = 4.0 * static_cast<double>(Graph::load(model).parameter_elements());
  // At least the processor time of what is overlapped is lost, on two cores that both compute.
  EXPECT_GT(512 / overlapped, 512 / alone + 0.5 * bytes * kTcpCpu);
}

}  // namespace
}  // namespace tandem::tests
