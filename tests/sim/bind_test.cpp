// SPDX-License-Identifier: Apache-2.0
// What frameworks' overheads do to durations.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>

#include "sim/cost/link_spread.h"
#include "sim/intervals.h"
#include "tests/sim/prediction.h"

namespace tandem::tests {
namespace {

double step(const char* model, const char* scheme, int64_t devices, Precision precision,
            const std::function<void(ResolvedScheme&)>& change) {
  const Graph graph = Graph::load(model);
  const System system = System::load("2080ti-pcie-8x");
  ResolvedScheme resolved = resolve_scheme(scheme, {});
  change(resolved);
  Request p = prediction_of(graph, system, resolved, devices, 8);
  p.job.precision = precision;
  p.check_memory = false;
  return static_cast<double>(p.job.batch * devices) / simulate(p).rate.samples_per_second;
}

TEST(Overheads, StalledNormalisationSlowsHalfPrecisionWithItOnSeveralDevices) {
  const auto ratio = [](const char* model, int64_t devices, Precision precision) {
    const auto with = [&](double stall) {
      return step(model, "tf-replicated-no-xla", devices, precision,
                  [&](ResolvedScheme& r) { r.overheads.norm_stall = stall; });
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
                  [&](ResolvedScheme& r) { r.overheads.interference = interference; });
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
                [&](ResolvedScheme& r) { r.overheads.replicate = replicate; });
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
    Request p = prediction_of(graph, system, resolved, devices, 8);
    p.job.optimizer = &optimizer(rule);
    p.check_memory = false;
    return simulate(p);
  };
  const auto seconds = [](const Report& r) {
    return 8.0 * static_cast<double>(r.setup.devices) / r.rate.samples_per_second;
  };
  const auto carried = [](const Report& r) {
    std::map<std::string, int64_t> out;
    for (const LinkUse& link : r.network.links) out[link.name] = link.bytes.n;
    return out;
  };
  // Alone, what is missing is at least the reading and writing of all parameters and their gradients.
  const double bytes = 3.0 * 4 * static_cast<double>(graph.parameter_elements());
  EXPECT_GT(seconds(report("allreduce", 1, "sgd")) - seconds(report("allreduce", 1, "none")),
            bytes / system.device(system.accelerators()[0]).memory_bandwidth.bytes_per_second);
  for (const char* scheme : {"allreduce", "data-parallel-master", "parameter-server", "zero", "local-sgd"}) {
    const Report none = report(scheme, 4, "none"), sgd = report(scheme, 4, "sgd");
    EXPECT_LE(seconds(none), seconds(sgd)) << scheme;  // equal where gathering hides the shares' updates
    EXPECT_EQ(carried(none), carried(sgd)) << scheme;
  }
}

/// Kernels of a training step that the host issues one by one: forward, and backward of a layer's input.
std::pair<double, double> operations(const char* model) {
  const Graph graph = Graph::load(model);
  const ResolvedScheme scheme = resolve_scheme("allreduce", {});
  const Workload work = make_workload(graph, 8, Precision::fp32, optimizer("momentum"), false);
  const Program program = scheme.scheme->compile(work, Cluster{}, scheme.options);
  double forward = 0, backward = 0;
  for (const Task& task : program.tasks) {
    for (const Kernel& k : task.kernels) {
      const auto launched = static_cast<double>(launches(scheme.recipe, k));
      forward += k.pass == Pass::forward ? launched : 0;
      backward += k.pass == Pass::backward_data ? launched : 0;
    }
  }
  return {forward, backward};
}

/// Seconds of a step whose host takes 10 ms for every operation.
double slowly_issued(const char* model, const char* scheme, int64_t devices) {
  return step(model, scheme, devices, Precision::fp32, [](ResolvedScheme& s) {
    const bool single = s.overheads.single_process;
    s.overheads = {};
    s.overheads.single_process = single;
    s.recipe.host = {.forward = Time::from_seconds(10e-3), .backward = Time::from_seconds(10e-3)};
  });
}

constexpr double kCoreSpeed = 1.1;  // of 2080ti-pcie-8x

TEST(Host, AStepLastsAsLongAsItsHostIssuesIt) {
  const auto [forward, backward] = operations("resnet50");
  const double host = 10e-3 * (forward + backward) / kCoreSpeed;
  EXPECT_NEAR(slowly_issued("resnet50", "allreduce", 1), host, 1e-3 * host);
  EXPECT_NEAR(slowly_issued("resnet50", "allreduce", 4), host, 1e-3 * host);  // each device has its own
}

TEST(Host, IssuingThatTheDeviceOutlastsCostsNothing) {
  const auto with = [](Time each, double micro) {
    return step("vgg16", "allreduce", 1, Precision::fp32, [&](ResolvedScheme& s) {
      s.recipe.host = {
          .forward = each, .backward = each, .update = {each, each, each}, .runs_ahead = micro > 0};
    });
  };
  EXPECT_EQ(with(Time::from_seconds(20e-6), 1), with({}, 1));
  // Frameworks that wait for the device begin late with the first layers alone.
  EXPECT_LT(with(Time::from_seconds(20e-6), 0), 1.01 * with({}, 1));
}

TEST(Host, OneInterpreterIssuesForwardOfAllDevicesAndBackwardOfEach) {
  const auto [forward, backward] = operations("resnet50");
  const double one = slowly_issued("resnet50", "pytorch-dataparallel", 1),
               four = slowly_issued("resnet50", "pytorch-dataparallel", 4), each = 10e-3 / kCoreSpeed;
  EXPECT_NEAR(one, each * (forward + backward), 0.02 * one);
  EXPECT_NEAR(four, each * (4 * forward + backward), 0.05 * four);
}

/// Seconds that updates issued at `each` a tensor add to a step on so many devices.
double late_updates(const char* scheme, int64_t devices, Time each) {
  const auto with = [&](Time update) {
    return step("resnet50", scheme, devices, Precision::fp32, [&](ResolvedScheme& s) {
      s.recipe.host.update = {update, update, update};
      s.recipe.host.awaits_sums = true;
    });
  };
  return with(each) - with({});
}

TEST(Host, WhatAwaitsASumIsIssuedAfterIt) {
  const Graph graph = Graph::load("resnet50");
  double tensors = 0;
  for (const Layer& layer : graph.layers()) tensors += static_cast<double>(layer.parameters.size());
  const Time each = Time::from_seconds(1e-3);
  const double sum = tensors * each.seconds() / kCoreSpeed;
  EXPECT_LT(late_updates("tf-mirrored", 1, each), 0.8 * sum);  // partly under the step of one device
  EXPECT_NEAR(late_updates("horovod:overlap=off", 4, each), sum, 0.07 * sum);  // less the kernels
  EXPECT_NEAR(late_updates("tf-mirrored", 4, each), 4 * sum, 0.07 * sum);  // one process for all of a node
}

TEST(Host, PartsOfTensorsAreGatheredOneByOne) {
  const Graph graph = Graph::load("resnet50");
  double tensors = 0;
  for (const Layer& layer : graph.layers()) tensors += static_cast<double>(layer.parameters.size());
  const auto seconds = [](const char* scheme, double each) {
    return step("resnet50", scheme, 4, Precision::fp32,
                [&](ResolvedScheme& s) { s.recipe.host.shard = Time::from_seconds(each); });
  };
  const double more = 4 * tensors * 1e-3 / kCoreSpeed;
  EXPECT_NEAR(seconds("hybrid:sharding=1", 4e-3) - seconds("hybrid:sharding=1", 3e-3), more, 0.01 * more);
  EXPECT_EQ(seconds("hybrid", 4e-3), seconds("hybrid", 0));
}

TEST(Host, OneLauncherStartsACollectiveOnEachDevice) {
  const auto seconds = [](Time collective, bool one) {
    return step("resnet50", "allreduce:overlap=off,bucket=1TiB", 4, Precision::fp32, [&](ResolvedScheme& s) {
      s.overheads.collective = collective;
      s.overheads.one_launcher = one;
    });
  };
  const Time start = Time::from_seconds(5e-3);
  EXPECT_NEAR(seconds(start, false) - seconds({}, false), 5e-3, 1e-5);
  EXPECT_NEAR(seconds(start, true) - seconds({}, true), 20e-3, 1e-5);
}

/// What the interval of BERT large on v100-mesh-1ib is made of, by name.
std::map<std::string, double> sources(int64_t devices, const char* scheme) {
  const Graph graph = Graph::load("bert-large");
  const System machine = System::load("v100-mesh-1ib");
  const ResolvedScheme resolved = resolve_scheme(scheme, {});
  Request p = prediction_of(graph, machine, resolved, devices, 2);
  p.job.optimizer = &optimizer("adam");
  std::map<std::string, double> out;
  for (const ErrorSource& e : simulate(p).rate.errors) out[e.source] = e.sigma;
  return out;
}

/// A prediction of VGG-16 on `devices` of 3090-pcie, and whether it counts with hosts that differ.
std::pair<Report, bool> on_staged_cards(int64_t devices, const char* reach = "none") {
  const Graph graph = Graph::load("vgg16");
  const System machine = System::load("3090-pcie", {{"peer_access.reach", reach}});
  const ResolvedScheme resolved = resolve_scheme("allreduce", {});
  Request p = prediction_of(graph, machine, resolved, devices);
  const Cluster cluster = make_cluster(machine, devices);
  const bool differ = host_spread(p, cluster) > 0;
  p.measured = std::make_shared<MeasuredCollectives>();
  EXPECT_EQ(host_spread(p, cluster), 0);  // what was measured is known
  p.measured = nullptr;
  return {simulate(p), differ};
}

TEST(Interval, IsWideWhereHostsOfOneKindDiffer) {
  const auto told = [](const Report& r) {
    return std::any_of(r.notes.begin(), r.notes.end(), [](const std::string& note) {
      return note.find("hosts differ by a factor of 7") != std::string::npos;
    });
  };
  const auto [four, differ] = on_staged_cards(4);
  EXPECT_TRUE(differ);
  EXPECT_TRUE(told(four));
  EXPECT_GT(four.rate.interval.high / four.rate.interval.low, 4);
  for (const auto& [other, differs] : {on_staged_cards(1), on_staged_cards(4, "system")}) {
    EXPECT_FALSE(differs);
    EXPECT_FALSE(told(other));
  }
}

TEST(Interval, KernelsErrInCommonOnOneBoardMoreThanOnOneArchitecture) {
  const Graph graph = Graph::load("resnet50");
  const ResolvedScheme resolved = resolve_scheme("allreduce", {});
  const auto on = [&](const char* system, int64_t batch) {
    const System machine = System::load(system);
    return simulate(prediction_of(graph, machine, resolved, 1, batch));
  };
  const Report one = on("titan-rtx-pcie-4x", 64);
  /// Of the ratio's interval, over what it is where nothing cancels.
  const auto left = [&](const Report& other) {
    const auto width = [](const Report::Interval& i) { return std::log(i.high / i.low); };
    return width(ratio_interval(one, other)) /
           std::hypot(width(one.rate.interval), width(other.rate.interval));
  };
  const double board = left(on("titan-rtx-pcie-4x", 128)), turing = left(on("2080ti-pcie-4x", 64)),
               volta = left(on("v100-pcie-8x", 64));
  EXPECT_LT(board, 0.2);
  EXPECT_NEAR(turing, 0.72, 0.1);
  EXPECT_NEAR(volta, 1, 1e-6);
}

/// ResNet-50 on two nodes of p3.16xlarge, whose network is recalled.
Report over_tcp(const char* bandwidth, int64_t batch) {
  const Graph graph = Graph::load("resnet50");
  const System machine = System::load("p3.16xlarge", {{"nodes", "2"}, {"network.bandwidth", bandwidth}});
  const ResolvedScheme resolved = resolve_scheme("horovod", {});
  Request p = prediction_of(graph, machine, resolved, 16, batch);
  p.check_memory = false;
  return simulate(p);
}

/// Standard errors of the rate by its links, below and above.
std::pair<double, double> of_links(const Report& r) {
  double below = 0, above = 0;
  for (const ErrorSource& e : r.rate.errors) {
    const bool link = e.source.starts_with("communication on ") ||
                      e.source.starts_with("ways of p3.16xlarge") ||
                      e.source == "network of p3.16xlarge, recalled";
    below = link ? std::hypot(below, e.sigma) : below;
    above = link ? std::hypot(above, e.sigma_above()) : above;
  }
  return {below, above};
}

TEST(Interval, CommunicationThatIsJustHiddenShowsBelowOnly) {
  const Report hidden = over_tcp("25Gbit/s", 64), deep = over_tcp("25Gbit/s", 256),
               slow = over_tcp("2Gbit/s", 64);
  ASSERT_LT(hidden.time.share.exposed_communication, 0.02);
  EXPECT_GT(of_links(hidden).first, 0.05);
  EXPECT_LT(of_links(hidden).second, 0.02);
  EXPECT_GT(hidden.rate.samples_per_second / hidden.rate.interval.low,
            1.02 * hidden.rate.interval.high / hidden.rate.samples_per_second);
  EXPECT_LT(of_links(deep).first, 0.02) << "hidden whatever the links";
  ASSERT_GT(slow.time.share.exposed_communication, 0.3);
  EXPECT_GT(of_links(slow).second, 0.1) << "what is exposed can be gained";
}

TEST(Interval, TransfersAsLongAsPricedGiveTheRate) {
  const Graph graph = Graph::load("resnet50");
  const System machine = System::load("p3.16xlarge", {{"nodes", "2"}});
  for (const char* scheme : {"allreduce", "parameter-server", "parameter-server:mode=async", "gossip"}) {
    const ResolvedScheme resolved = resolve_scheme(scheme, {});
    const Request p = prediction_of(graph, machine, resolved, 16);
    const Simulation simulation(p);
    const Simulated run = simulation.run(p.devices, 1);
    EXPECT_EQ(simulation.rate_if(run, 0), run.rate) << scheme;
    EXPECT_LT(simulation.rate_if(run, 4), 0.9 * run.rate) << scheme;
  }
  const ResolvedScheme resolved = resolve_scheme("allreduce", {});
  Request p = prediction_of(graph, machine, resolved, 4);
  p.beside = {{p.job, 4}};
  const Simulation simulation(p);
  const Simulated run = simulation.run(p.devices, 1, true);
  EXPECT_EQ(simulation.rate_if(run, 0), run.rate);
}

/// Of split models as well, over as many steps, and where shorter steps stand for long ones.
TEST(Interval, TransfersAsLongAsPricedGiveTheRateOfSplitModels) {
  const Graph graph = Graph::load("gpt2:layers=4,hidden=512,heads=8,sequence=512,vocabulary=128,fused=0");
  const System machine = System::load("p3.16xlarge", {{"nodes", "2"}});
  for (const char* scheme : {"hybrid:data=8,pipeline=2,microbatches=4", "hybrid:data=2,tensor=8",
                             "hybrid:data=2,pipeline=2,tensor=4,microbatches=4,schedule=interleaved,chunks=2",
                             "hybrid:data=8,pipeline=2,microbatches=64"}) {
    const ResolvedScheme resolved = resolve_scheme(scheme, {});
    Request p = prediction_of(graph, machine, resolved, 16, 4);
    p.own_executions = 2'000;
    const Simulation simulation(p);
    const Simulated run = simulation.run(p.devices, 1);
    EXPECT_EQ(run.shorter.has_value(), resolved.options.count("microbatches") == 64) << scheme;
    EXPECT_EQ(simulation.rate_if(run, 0), run.rate) << scheme;
    EXPECT_LT(simulation.rate_if(run, 4), 0.9 * run.rate) << scheme;
  }
}

TEST(Interval, KnowsUntriedFrameworksRecalledNetworksAndNodes) {
  const auto one = sources(8, "horovod"), two = sources(16, "horovod"), four = sources(32, "horovod");
  EXPECT_FALSE(one.contains("network of v100-mesh-1ib, unsure"));
  ASSERT_TRUE(two.contains("network of v100-mesh-1ib, unsure"));
  for (const auto& [name, sigma] : two) {
    if (name.starts_with("communication on ")) EXPECT_GT(two.at("network of v100-mesh-1ib, unsure"), sigma);
  }
  EXPECT_GT(four.at("4 nodes"), two.at("2 nodes"));
  EXPECT_GT(sources(8, "deepspeed-zero1").at("deepspeed-zero1 on several devices"),
            one.at("horovod on several devices"));
}

TEST(Interval, KnowsNetworksThatDifferAndPresetsThatVary) {
  const System machine = System::load("p3.16xlarge", {{"nodes", "2"}});
  EXPECT_GT(machine.communication().real("spread", 0), 0);
  EXPECT_GT(network_spread(machine),
            machine.communication().real("spread", 0));  // its port is recalled besides
  EXPECT_EQ(network_spread(System::load("dgx-a100")), 0);
  EXPECT_EQ(resolve_scheme("pytorch-dataparallel", {}).overheads.several_error, 0.17);
  EXPECT_EQ(resolve_scheme("deepspeed-zero1", {}).overheads.several_error, 0.1);
  EXPECT_EQ(resolve_scheme("allreduce", {}).overheads.several_error, 0.05);
}

double rate(const char* system, const char* model, int64_t batch, const char* scheme, int64_t devices) {
  const Graph graph = Graph::load(model);
  const System machine = System::load(system);
  const ResolvedScheme resolved = resolve_scheme(scheme, {});
  Request p = prediction_of(graph, machine, resolved, devices, batch);
  p.job.precision = Precision::fp16;
  p.check_memory = false;
  return simulate(p).rate.samples_per_second;
}

TEST(Host, NewerDevicesAreNotSlowerWhateverTheBatch) {
  for (const char* model : {"resnet50", "bert-large", "mobilenet-v2"}) {
    for (const int64_t batch : {1, 8, 32}) {
      double before = 0;
      for (const char* system : {"dgx1-v100", "dgx-a100", "dgx-h100"}) {
        const double now = rate(system, model, batch, "pytorch-ddp", 1);
        EXPECT_GT(now, before) << system << " " << model << " " << batch;
        before = now;
      }
    }
  }
}

TEST(Host, ShardingTheUpdateGainsNoMoreThanTheUpdateTakes) {
  const double all = rate("dgx-h100", "resnet50", 32, "allreduce", 8),
               zero = rate("dgx-h100", "resnet50", 32, "zero", 8);
  EXPECT_LT(zero, 1.1 * all);
}

}  // namespace
}  // namespace tandem::tests
