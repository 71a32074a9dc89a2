// SPDX-License-Identifier: Apache-2.0
// What a measured machine's profile says, against its own round figures (machine_profile.json).
#include "sim/cost/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/json.h"

namespace tandem::tests {
namespace {

using sim::CopyWay;
using sim::KernelNeighbours;
using sim::MachineProfile;
using sim::normal_score;
using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pointwise;

std::string text() { return read_file(TANDEM_ROOT "/tests/sim/machine_profile.json"); }

using Changes = std::vector<std::pair<std::string, std::string>>;

/// The profile with every `was` replaced by `now`.
MachineProfile profile(const Changes& changes = {}) {
  std::string t = text();
  for (const auto& [was, now] : changes) {
    for (std::size_t at = 0; (at = t.find(was, at)) != std::string::npos; at += now.size())
      t.replace(at, was.size(), now);
  }
  return MachineProfile(Json::parse(t, "profile.json"));
}

std::string refusal(const std::string& was, const std::string& now) {
  try {
    profile({{was, now}});
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(Machine, InterpolatesByLogarithmsAndExtendsTheEnds) {
  const MachineProfile p = profile();
  EXPECT_NEAR(p.copy(1000), 1e-6, 1e-15);
  EXPECT_NEAR(p.copy(1e6), 2e-4, 1e-12);
  EXPECT_NEAR(p.copy(std::sqrt(1e9)), std::sqrt(2e-10), 1e-12) << "half way between them";
  EXPECT_NEAR(p.copy(1e9), 2e-4 * 200, 1e-9) << "three decades give a factor of 200";
  EXPECT_NEAR(p.copy(500), 0.5e-6, 1e-15);
  EXPECT_NEAR(p.copy(1), 0.05e-6, 1e-15) << "no less than a twentieth";
  EXPECT_EQ(p.copy(0), 0);
}

TEST(Machine, BeyondTheLargestSizeCachesHelpNoMore) {
  const MachineProfile p = profile({{"1000000.0, \"seconds\": 0.0002", "1000000.0, \"seconds\": 0.01"}});
  EXPECT_NEAR(p.copy(std::sqrt(1e9)), 1e-4, 1e-9) << "steep, as measured";
  EXPECT_NEAR(p.copy(4e6), 0.04, 1e-9) << "in proportion";
}

TEST(Machine, SumsOfMoreRanksThanWereMeasuredTakeInProportion) {
  const MachineProfile p = profile();
  EXPECT_EQ(p.all_reduce(1e6, 1), 0);
  EXPECT_NEAR(p.all_reduce(1e6, 2), 1e-3, 1e-12);
  EXPECT_NEAR(p.all_reduce(1e6, 3), 1.5e-3, 1e-12);
  EXPECT_NEAR(p.all_reduce(1e6, 6), 3e-3, 1e-12);
  EXPECT_EQ(profile({{"\"all_reduce\": [", "\"all_reduce\": [], \"unused\": ["}}).all_reduce(1e6, 2), 0);
}

TEST(Machine, MessagesTakeWhatWasMeasuredAtTheirRate) {
  const MachineProfile p = profile();
  EXPECT_TRUE(p.has_tcp());
  EXPECT_NEAR(p.tcp_message(1000, 0), 4e-5, 1e-15) << "not limited";
  EXPECT_NEAR(p.tcp_message(1000, 1e8), 6e-5, 1e-15);
  EXPECT_NEAR(p.tcp_message(1000, 1e7), 2e-4, 1e-15);
  EXPECT_NEAR(p.tcp_message(1000, std::sqrt(1e15)), std::sqrt(2e-4 * 6e-5), 1e-12);
  EXPECT_NEAR(p.tcp_message(1000, 1e7 * std::pow(10, 0.25)), std::pow(2e-4, 0.75) * std::pow(6e-5, 0.25),
              1e-12);
  EXPECT_NEAR(p.tcp_message(1000, 1e6), 2e-3, 1e-12) << "a tenth of the slowest";
  EXPECT_NEAR(p.tcp_message(1000, 2e8), 4e-5, 1e-15) << "faster than any rate";
  EXPECT_NEAR(p.tcp_message(1e6, 2e8), 5e-3, 1e-12) << "and no faster than its bytes";
  EXPECT_NEAR(p.tcp_cpu(1e6), 3e-4, 1e-15);
  const MachineProfile limited = profile({{"\"bytes_per_second\": 0,", "\"bytes_per_second\": 1e9,"}});
  EXPECT_NEAR(limited.tcp_message(1000, 0), 4e-5, 1e-15) << "the fastest that was measured";
  EXPECT_NEAR(limited.tcp_message(1000, 1e10), 4e-5, 1e-15);
  EXPECT_NEAR(limited.tcp_message(1000, 1e9), 4e-5, 1e-15);
  EXPECT_THROW(profile({{"\"tcp\": [", "\"wire\": ["}}), InputError) << "of version 0.1";
  const MachineProfile without = profile({{"\"tcp\": [", "\"unused\": ["}});
  EXPECT_FALSE(without.has_tcp());
  EXPECT_EQ(without.tcp_message(1000, 0), 0);
}

Kernel product(int64_t m, int64_t n, int64_t k) {
  Kernel out;
  out.kind = KernelKind::gemm;
  out.pass = Pass::forward;
  out.shape = {1, m, n, k};
  out.flops.n = 2 * m * n * k;
  out.read.n = 4 * k * (m + n);
  out.written.n = 4 * m * n;
  return out;
}

TEST(Machine, KernelsCostWhatTheNearestDid) {
  const MachineProfile p = profile();
  Kernel known = product(8, 120, 400);
  double distance = -1;
  const double alone = p.seconds(known, 1, {}, &distance);
  EXPECT_EQ(distance, 0);
  EXPECT_NEAR(alone, 1.5e-5, 1e-9);
  EXPECT_DOUBLE_EQ(p.seconds(known, 2, {}), 1.1 * alone);
  EXPECT_DOUBLE_EQ(p.seconds(known, 4, {}), 2.2 * alone) << "four take turns on two cores";
  EXPECT_DOUBLE_EQ(
      profile({{"\"cores\": 2", "\"cores\": 1"}, {"\"noise\"", "\"unused\""}}).seconds(known, 3, {}),
      1.5 * 1.1 * alone)
      << "what two lost to each other was measured";
  EXPECT_DOUBLE_EQ(profile({{"\"slowdown\": [", "\"slowdown\": [], \"unused\": ["}}).seconds(known, 2, {}),
                   alone);
  known.repeat = 3;
  EXPECT_DOUBLE_EQ(p.seconds(known, 1, {}), 3 * alone);
  // Between two kernels: what they took beside the curve, each by the inverse fourth power of its distance.
  const Kernel near = product(16, 120, 400), small = product(8, 120, 400), large = product(32, 120, 400);
  const auto curve = [](const Kernel& k) {
    return 1e-6 + 2e-11 * static_cast<double>(k.flops.n) +
           3e-11 * static_cast<double>(k.read.n + k.written.n);
  };
  const auto between = [](const Kernel& a, const Kernel& b) {
    const auto x = sim::position(a, {}), y = sim::position(b, {});
    double square = 0;
    for (std::size_t i = 0; i < x.size(); ++i) square += std::pow(x[i] - y[i], 2);
    return square;
  };
  const double v = std::pow(between(near, small) + 1e-3, -2), w = std::pow(between(near, large) + 1e-3, -2);
  const double factor = std::exp((v * std::log(1.5e-5 / curve(small)) + w * std::log(6e-5 / curve(large))) /
                                 (v + w + 1.0 / 256));
  EXPECT_NEAR(p.seconds(near, 1, {}, &distance), factor * curve(near), 1e-12);
  EXPECT_NEAR(distance, std::sqrt(std::min(between(near, small), between(near, large))), 1e-12);
  // Far from all of them the curve alone speaks.
  const Kernel far = product(int64_t{1} << 40, 1 << 10, 1 << 10);
  EXPECT_NEAR(p.seconds(far, 1, {}, &distance) / curve(far), 1, 0.01);
  EXPECT_EQ(distance, KernelNeighbours::kFar);
}

/// Logarithms to base 2 of one more than each figure: figures of the form 2^n - 1 give whole numbers.
TEST(Machine, KernelsLieWhereTheirSizesSay) {
  Kernel k = product(3, 7, 15);
  k.flops.n = 1023;
  k.read.n = 200;
  k.written.n = 55;
  EXPECT_THAT(sim::position(k, {7}), ElementsAre(5, 4, 1, 2, 3, 4));
  k.kind = KernelKind::elementwise;
  k.shape = {7};
  k.flops.n = 7 * 8;
  k.read.n = 4 * 8;
  k.written.n = 8;
  const auto pass = sim::position(k, {});
  EXPECT_THAT(pass, Pointwise(DoubleNear(1e-12),
                              {0.5 * std::log2(57), 0.5 * std::log2(41), 12.0, 4 * std::log2(5), 4.0, 0.9}));
  k.shape.clear();
  EXPECT_EQ(sim::position(k, {}).size(), 5u);
  k.read.n = 1;
  k.written.n = 3;
  k.flops.n = 3;
  EXPECT_THAT(sim::position(k, {})[2], 8) << "not even one element: as one";
  k.kind = KernelKind::optimizer;
  k.pass = Pass::update;
  k.shape = {2};
  k.flops.n = 6;
  k.read.n = 14;
  k.written.n = 2;
  EXPECT_THAT(sim::position(k, {1023}), ElementsAre(10, 8, 12, 4));
  k.shape.clear();
  EXPECT_EQ(sim::position(k, {1023}).size(), 5u);
}

TEST(Machine, ConvolutionsLieByChannelsInSixteens) {
  ConvShape s;
  s.batch = 7;
  s.in_channels = 62;
  s.out_channels = 30;
  s.groups = 2;
  s.in = {1, 9, 9};
  s.out = {1, 3, 5};
  s.kernel = {1, 1, 3};
  s.stride = {1, 1, 1};
  s.dilation = {1, 1, 1};
  Kernel k;
  k.kind = KernelKind::conv;
  k.pass = Pass::forward;
  k.shape = s.pack();
  k.flops.n = 255;
  k.read.n = k.written.n = 0;
  const double lone = std::log2(32.0 / 31) * 3, lost = std::log2(16.0 / 15) * 3;
  EXPECT_THAT(sim::position(k, {}), Pointwise(DoubleNear(1e-12), {4.0, 0.0, 3.0, 5.0, 4.0, std::log2(3.0),
                                                                  4.0, 2.0, 1.0, lone, lost}));
  s.in_channels = 64;
  k.shape = s.pack();
  EXPECT_EQ(sim::position(k, {})[9], 0) << "thirty-two fill two vectors";
}

/// As the products that they do, with rows that begin at multiples of 2^n bytes.
TEST(Machine, OnAGpuProductsLieByTheirSizesAndAlignment) {
  Kernel k = product(31, 3, 12);
  k.flops.n = 1023;
  k.read.n = 200;
  k.written.n = 55;
  const auto l = [](double v) { return std::log2(v + 1); };
  const double groups = l(static_cast<double>(k.shape[0])), m = l(static_cast<double>(k.shape[1])),
               n = l(static_cast<double>(k.shape[2])), depth = l(static_cast<double>(k.shape[3]));
  const auto align = [](int64_t v) { return 2 * std::log2(static_cast<double>(std::gcd(v, int64_t{8}))); };
  EXPECT_THAT(
      sim::position(k, {}, true),
      Pointwise(DoubleNear(1e-12), {5.0, 4.0, groups, m, n, depth, align(k.shape[2]), align(k.shape[3])}));
  k.pass = Pass::backward_weights;  // what lies in rows of the batch is summed over
  EXPECT_EQ(sim::position(k, {}, true)[6], align(k.shape[1]));
  ConvShape s;
  s.batch = 2;
  s.in_channels = 4;
  s.out_channels = 16;
  s.in = s.out = {1, 5, 5};
  s.kernel = {1, 3, 3};
  s.pad = {0, 1, 1};
  k.kind = KernelKind::conv;
  k.pass = Pass::forward;
  k.shape = s.pack();
  EXPECT_THAT(sim::position(k, {}, true),
              Pointwise(DoubleNear(1e-12), {5.0, 4.0, 1.0, l(50), l(16), l(36), 4.0, 6.0, l(9), 1.0}));
  k.kind = KernelKind::elementwise;
  std::vector<double> no_product = sim::position(k, {});
  no_product.push_back(0);
  EXPECT_EQ(sim::position(k, {}, true), no_product);
  k.fused = true;
  no_product.back() = 8;
  EXPECT_EQ(sim::position(k, {}, true), no_product);
  k.fused = false;
  const auto on_processor = sim::position(k, {});
  k.fused = true;
  EXPECT_EQ(sim::position(k, {}), on_processor);
}

/// On a GPU what is made in a norm's launch costs what such kernels did; where it is not known which were,
/// and on a processor, what any did.
TEST(Machine, FusedKernelsCostWhatFusedOnesDid) {
  Kernel k;
  k.pass = Pass::forward;
  k.shape = {1 << 20, 1};
  k.flops.n = 1 << 20;
  k.read.n = k.written.n = 4 << 20;
  Kernel fused = k;
  fused.fused = true;
  std::vector<sim::KernelCurve> curves(std::size_t{kKernelKinds} * kPasses);
  curves[sim::KernelNeighbours::group(k)].per[sim::KernelCurve::byte] = 1e-12;
  const auto prices = [&](const std::vector<sim::KernelSample>& samples, bool gpu) {
    const sim::KernelNeighbours n(samples, curves, gpu);
    return std::pair{n.seconds(k, {}), n.seconds(fused, {})};
  };
  const std::vector<sim::KernelSample> unmarked{{k, 8e-6}}, marked{{k, 8e-6}, {fused, 1e-6}};
  const auto [alone, together] = prices(marked, true);
  EXPECT_NEAR(alone, 8e-6, 1e-9);
  EXPECT_NEAR(together, 1e-6, 1e-9);
  for (const bool gpu : {true, false}) {
    const auto [plain, taken] = prices(unmarked, gpu);
    EXPECT_EQ(plain, taken) << gpu;
  }
  const auto [plain, taken] = prices(marked, false);
  EXPECT_EQ(plain, taken);
}

/// Where none was measured on a GPU: by what a group's product is like, or as what streams, and hardly known.
TEST(Machine, GroupedConvolutionsAreNotPricedByTheirStartAlone) {
  ConvShape shape;
  shape.batch = 32;
  shape.in_channels = shape.out_channels = 128;
  shape.in = shape.out = {1, 28, 28};
  shape.kernel = {1, 3, 3};
  shape.pad = {0, 1, 1};
  const auto conv = [&](int64_t groups) {
    shape.groups = groups;
    Kernel k;
    k.kind = KernelKind::conv;
    k.shape = shape.pack();
    k.flops.n = 2 * shape.macs();
    k.read.n = 4 * (shape.in_elements() + shape.weight_elements());
    k.written.n = 4 * shape.out_elements();
    return k;
  };
  const Kernel dense = conv(1), grouped = conv(32), depthwise = conv(128);
  std::vector<sim::KernelCurve> curves(std::size_t{kKernelKinds} * kPasses);
  sim::KernelCurve& curve = curves[sim::KernelNeighbours::group(dense)];
  curve.products = true;
  curve.per[sim::KernelCurve::launch] = 5e-6;
  curve.per[sim::KernelCurve::flop] = 2e-14;
  curve.per[sim::KernelCurve::left] = 5e-13;
  curves[sim::KernelNeighbours::group({.kind = KernelKind::elementwise})].per[sim::KernelCurve::byte] = 2e-13;
  const auto price = [&](const Kernel& k, const std::vector<sim::KernelSample>& samples, double* distance) {
    return sim::KernelNeighbours(samples, curves, true).seconds(k, {}, distance);
  };
  const std::vector<sim::KernelSample> one{{dense, 1e-4}};
  const Json stock = Json::load(TANDEM_ROOT "/calibration/profiles/stock.json");
  const Json hopper = stock.at("architectures").at("hopper");
  EXPECT_NEAR(hopper.at("fp32").at("grouped").as_real(), 0.38, 0.005)
      << "what the rate of groups is taken from";
  double distance = 0;
  const auto flops = static_cast<double>(grouped.flops.n);
  // Four columns in each of the products.
  EXPECT_NEAR(price(grouped, one, &distance), 5e-6 + (2e-14 * flops + 5e-13 * flops / 4) / 0.38, 1e-9);
  EXPECT_EQ(distance, sim::KernelNeighbours::kUnlike);
  const auto moved = static_cast<double>((depthwise.read + depthwise.written).n);
  EXPECT_NEAR(price(depthwise, one, &distance), 5e-6 + 2e-13 * moved / 0.33, 1e-9);
  EXPECT_EQ(distance, sim::KernelNeighbours::kUnlike);
  price(dense, one, &distance);
  EXPECT_EQ(distance, 0);
  // Once one was measured, they are priced by those that were.
  const std::vector<sim::KernelSample> two{{dense, 1e-4}, {grouped, 3e-4}};
  EXPECT_NEAR(price(grouped, two, &distance), 3e-4, 1e-6);
  EXPECT_EQ(distance, 0);
}

TEST(Machine, StepsDifferAsRecorded) {
  const MachineProfile p = profile();
  const auto recorded = [&](int64_t active, double seconds) { return p.disturbance(active, seconds, false); };
  const auto one = recorded(2, 1e-3);
  EXPECT_EQ(one.iteration_sigma, 0) << "the recordings hold it";
  const auto are = [](std::vector<double> factors) {
    for (double& f : factors) f *= 1.05;
    return Pointwise(DoubleNear(1e-12), factors);
  };
  EXPECT_THAT(one.recorded, ElementsAre(are({0.9, 1, 1.3}), are({1.1, 0.95, 1})));
  EXPECT_THAT(recorded(1, 1.9e-3).recorded,
              ElementsAre(are({(0.9 + 0.9) / 1.9}), are({(1.1 + 0.9 * 0.95) / 1.9})));
  EXPECT_THAT(recorded(1, 2.1e-3).recorded[1],
              are({(2.1 * 0.97) / 2.1, (1.9 * 0.97 + 0.2 * 1.2) / 2.1, 1.2}));
  EXPECT_THAT(recorded(2, 0.5e-3).recorded[0], are({0.9, 0.9, 1, 1, 1.3, 1.3})) << "halves of its steps";
  EXPECT_THAT(recorded(2, 1).recorded[0], are({1})) << "longer than all that was recorded";
  EXPECT_THAT(recorded(3, 1e-3).recorded.size(), 2u) << "two on each core were recorded in earlier versions";
  EXPECT_EQ(recorded(2, 0).recorded.size(), 0u);
  EXPECT_EQ(recorded(2, 0).iteration_sigma, 0.02);
}

TEST(Machine, WhoWaitsForEachOtherGoesAsTheSlowest) {
  const auto factors = [](const MachineProfile& p, int64_t active) {
    std::vector<double> out;
    for (const auto& [worker, factor] : p.disturbance(active, 1e-3, true).slow) {
      EXPECT_EQ(worker, out.size());
      out.push_back(factor);
    }
    return out;
  };
  const MachineProfile p = profile();
  EXPECT_THAT(factors(p, 2), ElementsAre(1.2, 1.2));
  EXPECT_THAT(factors(p, 1), ElementsAre(1.05)) << "interrupted all the same";
  EXPECT_THAT(factors(p, 3), ElementsAre()) << "what one loses in turns another gains";
  EXPECT_THAT(factors(profile({{"\"cores\": 2", "\"cores\": 1"}, {"\"noise\"", "\"unused\""}}), 1),
              ElementsAre(1.05));
  EXPECT_THAT(factors(profile({{"\"interrupted\": 1.05", "\"interrupted\": 1"}}), 1), ElementsAre());
  EXPECT_EQ(normal_score(1, 1), 0);
  EXPECT_NEAR(normal_score(2, 2), 0.5895, 1e-4);  // Phi^-1(1.625 / 2.25)
  EXPECT_NEAR(normal_score(4, 4), 1.0491, 1e-4);  // Phi^-1(3.625 / 4.25)
}

TEST(Machine, ErrorsGrowWithTheDistance) {
  const MachineProfile p = profile();
  EXPECT_DOUBLE_EQ(p.error(0), 0.02);
  EXPECT_DOUBLE_EQ(p.error(2), std::sqrt(0.01 + 0.0004));
  EXPECT_DOUBLE_EQ(p.error_of_several(), 0.04);
  EXPECT_EQ(p.origin().busy, "a compiler");
}

TEST(Machine, RefusesRecordingsThatDoNotAddUp) {
  EXPECT_THAT(refusal("[[0.9, 1.0, 1.3], [1.1, 0.95, 1.0]]", "[[0.9, 1.0, 1.3], [1.1, 0.95]]"),
              HasSubstr("not as many steps"));
  EXPECT_THAT(refusal("[[0.9, 1.0, 1.3], [1.1, 0.95, 1.0]]", "[[], []]"), HasSubstr("or none"));
  EXPECT_THAT(refusal("[[0.9, 1.0, 1.3], [1.1, 0.95, 1.0]]", "[[1.0], [1.0], [1.0]]"),
              HasSubstr("3 workers on 2 cores, not one or two on each"));
  EXPECT_THAT(refusal("\"kind\": \"gemm\"", "\"kind\": \"gem\""), HasSubstr("\"gem\" is not known here"));
  EXPECT_THAT(refusal("[8, 8, 16, 1,", "[8, 8, 16,"), HasSubstr("a convolution's shape has 23 numbers"));
  EXPECT_THAT(refusal("[8, 8, 16, 1,", "[8, 8, 16, 0,"), HasSubstr("a convolution's sizes are at least 1"));
  EXPECT_THAT(refusal("[8, 8, 16, 1,", "[8, 8, 16, 9,"), HasSubstr("more groups than channels"));
}

}  // namespace
}  // namespace tandem::tests
