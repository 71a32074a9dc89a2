// SPDX-License-Identifier: Apache-2.0
// A coordinator's rounds: both engines run the Program with a bucket for each tensor, and make the same sums
// of what is ready.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/cross/settings.h"

namespace tandem::tests {
namespace {

/// All-reduces of a step, predicted and executed, of the tiny model's gradients.
struct Sums {
  double predicted = 0, executed = 0;
  std::size_t tensors = 0;
};

Sums sums(const std::string& text, const Cluster& cluster, const char* backend = kCpu,
          int32_t iterations = 7) {
  const ResolvedScheme scheme = resolve_scheme(text, {});
  const Setting s{text, cluster};
  Execution e = execution(s, scheme, backend, iterations);
  e.integer_gradients = true;
  const Request p = prediction(s, scheme, iterations);
  EXPECT_EQ(fingerprint(make_program(e)), fingerprint(compile(p.job, cluster))) << text;
  const ExecutionResult r = execute(e, {false, true, true});
  if (std::string(backend) == kCpu) {
    for (std::size_t i = 0; i < r.parameters.size(); ++i) {
      int64_t sum = 0;
      for (uint32_t w = 0; w < cluster.devices; ++w) {
        for (int32_t t = 0; t < iterations; ++t)
          sum += integer_gradient(w, static_cast<uint32_t>(t), static_cast<int64_t>(i));
      }
      EXPECT_EQ(static_cast<double>(r.parameters[i]), static_cast<double>(-sum)) << text << " " << i;
    }
  }
  return {simulate(p).network.all_reduces_per_step, r.report.network.all_reduces_per_step,
          make_program(e).buckets.size()};
}

/// Without overlap all gradients get ready at once, so that how many sums there are is a matter of bytes:
/// tensors in order, each with those before it as far as the bucket goes.
TEST(Rounds, WhatIsReadyAtOnceIsSummedTogetherAsFarAsTheBucketGoes) {
  const auto pieces = [](int64_t most) {
    const ResolvedScheme scheme = resolve_scheme("allreduce:bucket=0B", {});
    int64_t count = 0, open = 0;
    for (const Bucket& b :
         make_program(execution({"allreduce:bucket=0B", {2, 1, 2}}, scheme, kNull, 1)).buckets) {
      if (count == 0 || open + 4 * b.elements > most) ++count, open = 0;
      open += 4 * b.elements;
    }
    return static_cast<double>(count);
  };
  for (const Cluster& cluster : {Cluster{2, 1, 2}, Cluster{3, 1, 3}, Cluster{4, 2, 2}}) {
    for (const auto& [bucket, most] :
         {std::pair{"64MiB", int64_t{64} << 20}, {"1KiB", 1024}, {"300B", 300}, {"0B", 0}}) {
      const Sums s = sums(fmt::format("allreduce:cycle=2ms,overlap=off,bucket={}", bucket), cluster);
      EXPECT_EQ(s.executed, pieces(most)) << bucket;
      EXPECT_EQ(s.predicted, s.executed) << bucket;
      EXPECT_GE(s.tensors, 4U) << "one a tensor in the Program";
      const Sums grid =
          sums(fmt::format("hybrid:microbatches=1,cycle=2ms,overlap-reduce=off,bucket={}", bucket), cluster);
      EXPECT_EQ(grid.executed, s.executed) << bucket;
      EXPECT_EQ(grid.predicted, s.predicted) << bucket;
      EXPECT_EQ(grid.tensors, s.tensors);
    }
  }
}

/// With overlap it is a matter of time; no sum is lost, and none is made of less than a tensor.
TEST(Rounds, UnderBackwardThereIsAtLeastOneAndAtMostOneForEachTensor) {
  for (const char* cycle : {"50us", "500us", "5ms"}) {
    const Sums s = sums(fmt::format("horovod:cycle={},gradients=fp32", cycle), {2, 1, 2});
    EXPECT_GE(s.executed, 1);
    EXPECT_LE(s.executed, static_cast<double>(s.tensors));
    EXPECT_GE(s.predicted, 1);
    EXPECT_LE(s.predicted, static_cast<double>(s.tensors));
  }
}

TEST(Rounds, WithoutACycleThereIsNoCoordinator) {
  const Sums s = sums("allreduce:bucket=1KiB", {2, 1, 2});
  EXPECT_EQ(s.executed, 0);
  EXPECT_EQ(s.predicted, 0);
}

/// A device's own queues make the sums of full buckets, and the report says so.
TEST(Rounds, AsynchronousDevicesKeepTheirBuckets) {
  const ResolvedScheme scheme = resolve_scheme("allreduce:cycle=1ms,bucket=64MiB", {});
  Execution e = execution({"allreduce", {2, 1, 2}}, scheme, kNull, 3);
  for (const Backend& backend : backends()) {
    e.backend = &backend;
    EXPECT_EQ(make_program(e).buckets.size() == 1, backend.asynchronous) << backend.name;
    const ExecutionResult r = execute(e);
    EXPECT_EQ(r.report.network.all_reduces_per_step == 0, backend.asynchronous) << backend.name;
    // Besides there may be notes on the cores of the machine.
    const auto told = [](const std::string& note) { return note.starts_with("cycle: "); };
    EXPECT_EQ(std::any_of(r.report.notes.begin(), r.report.notes.end(), told), backend.asynchronous)
        << backend.name;
  }
}

/// A step needs a look of its own, so that none is shorter than a cycle, in either engine; a step that is
/// much longer waits for half of one in the mean.
TEST(Rounds, AStepTakesACycleAtLeast) {
  const auto step = [](const char* text) {
    const ResolvedScheme scheme = resolve_scheme(text, {});
    return simulate(prediction({text, {2, 1, 2}}, scheme, 20)).iteration.median;
  };
  const double none = step("allreduce:overlap=off");
  EXPECT_LT(none, 2e-3);
  for (const auto& [text, cycle] :
       {std::pair{"allreduce:cycle=2ms,overlap=off", 2e-3}, {"allreduce:cycle=20ms", 20e-3}}) {
    EXPECT_GE(step(text), cycle);
    EXPECT_LT(step(text), cycle + none);
    const ResolvedScheme scheme = resolve_scheme(text, {});
    const auto seconds = execute(execution({text, {2, 1, 2}}, scheme, kCpu, 12)).iteration_seconds;
    ASSERT_GE(seconds.size(), 10U);
    // Looks are a cycle apart, and the first of them ended before the second began.
    EXPECT_GE(std::accumulate(seconds.begin(), seconds.end(), 0.0),
              static_cast<double>(seconds.size() - 1) * cycle);
  }
}

}  // namespace
}  // namespace tandem::tests
