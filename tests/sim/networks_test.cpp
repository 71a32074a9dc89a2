// SPDX-License-Identifier: Apache-2.0
// Networks trained in turn: times, shares and memory add up to what each has by itself.
#include "sim/networks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/capacity.h"
#include "sim/simulate.h"
#include "tests/sim/prediction.h"

namespace tandem::tests {
namespace {

class Networks : public testing::Test {
 protected:
  Request ask(const Graph& graph, int64_t devices, int64_t batch,
              std::vector<sim::NetworkThen> then = {}) const {
    Request p = prediction_of(graph, system_, scheme_, devices, batch);
    p.disturbance = Disturbance{};
    p.then = std::move(then);
    return p;
  }
  double rate(const Graph& graph, int64_t devices, int64_t batch) const {
    return simulate(ask(graph, devices, batch)).rate.samples_per_second;
  }
  Graph first_ = Graph::load("alexnet"), second_ = Graph::load("resnet18");
  System system_ = System::load("dgx1-v100");
  ResolvedScheme scheme_ = resolve_scheme("pytorch-ddp", Place{});
};

TEST_F(Networks, TimesOfASampleAddUp) {
  for (const int64_t devices : {1, 4}) {
    const Request p = ask(first_, devices, 32, {{&second_, 4, 16}, {&first_, 0.5, 32}});
    const Report r = simulate(p);
    const double seconds = 1.5 / rate(first_, devices, 32) + 4 / rate(second_, devices, 16);
    EXPECT_NEAR(r.rate.samples_per_second * seconds, 1, 1e-9) << devices;
    EXPECT_DOUBLE_EQ(throughput(p), r.rate.samples_per_second) << devices;
    EXPECT_NEAR(r.iteration.median * r.rate.samples_per_second / (32.0 * static_cast<double>(devices)), 1,
                1e-6);
    EXPECT_NEAR(r.scaling.speedup, r.rate.samples_per_second / throughput(ask(first_, 1, 32, p.then)), 1e-9);
    const TimeShare& t = r.time.share;
    EXPECT_NEAR(
        t.compute + t.launch + t.exposed_communication + t.waiting + t.bubble + t.input + t.server + t.idle,
        1, 1e-9);
  }
}

TEST_F(Networks, OneTwiceIsHalfAsFastAndAsUncertain) {
  const Report once = simulate(ask(first_, 4, 32)), twice = simulate(ask(first_, 4, 32, {{&first_, 1, 32}}));
  EXPECT_NEAR(twice.rate.samples_per_second, once.rate.samples_per_second / 2,
              1e-9 * once.rate.samples_per_second);
  EXPECT_NEAR(twice.rate.interval.high / twice.rate.interval.low,
              once.rate.interval.high / once.rate.interval.low, 1e-9);
  EXPECT_NEAR(twice.time.share.compute, once.time.share.compute, 1e-9);
  ASSERT_EQ(twice.time.kernels.size(), once.time.kernels.size());
  EXPECT_NEAR(twice.time.kernels[0].heaviest, once.time.kernels[0].heaviest, 1e-9);
  EXPECT_EQ(twice.network.links.front().name, once.network.links.front().name);
  EXPECT_NEAR(twice.network.links.front().busy, once.network.links.front().busy, 1e-9);
}

TEST_F(Networks, StatesOfAllAndActivationsOfOneStay) {
  const Request p = ask(first_, 4, 32, {{&second_, 1, 64}});
  const MemoryUse a = sim::memory_on(ask(first_, 4, 32), 4), b = sim::memory_on(ask(second_, 4, 64), 4);
  const MemoryUse both = sim::memory_on(p, 4);
  EXPECT_EQ(both.parameters.n, a.parameters.n + b.parameters.n);
  EXPECT_EQ(both.optimizer.n, a.optimizer.n + b.optimizer.n);
  EXPECT_EQ(both.activations.n, std::max(a.activations.n, b.activations.n));
  EXPECT_GT(both.nvidia_smi, std::max(a.nvidia_smi, b.nvidia_smi));
  EXPECT_LT(both.nvidia_smi.n, a.nvidia_smi.n + b.nvidia_smi.n);
  EXPECT_EQ(simulate(p).memory.nvidia_smi, both.nvidia_smi);
}

TEST_F(Networks, ThatDoNotFitTogetherAreNotSimulated) {
  const Graph large = Graph::load("gpt2-medium");
  Request alone = ask(large, 2, 1);
  alone.job.optimizer = &optimizer("adam");
  EXPECT_TRUE(simulate(alone).fits);
  alone.then = {{&large, 1, 1}, {&large, 1, 1}};
  const Report r = simulate(alone);
  EXPECT_FALSE(r.fits);
  EXPECT_EQ(r.rate.samples_per_second, 0);
  const auto remedies = sim::remedies(alone, r.memory, resolve_scheme("zero:stage=3", {}));
  EXPECT_TRUE(std::any_of(remedies.begin(), remedies.end(), [](const Remedy& remedy) {
    return remedy.changes[0] == Remedy::Change{"scheme", "zero:stage=3"};
  }));
}

TEST_F(Networks, RefuseWhatHasNoMeaning) {
  const ResolvedScheme async = resolve_scheme("parameter-server:mode=async", Place{});
  Request p = ask(first_, 4, 32, {{&second_, 1, 32}});
  p.job.scheme = &async;
  EXPECT_THROW(simulate(p), InputError);
  p.job.scheme = &scheme_;
  p.anchor = sim::Anchor{.rate = 100};
  EXPECT_THROW(simulate(p), InputError);
  EXPECT_THROW(throughput(p), InputError);
  p.anchor.reset();
  p.beside = {{p.job, 2}};
  EXPECT_THROW(simulate(p), InputError);
}

}  // namespace
}  // namespace tandem::tests
