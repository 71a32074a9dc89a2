// SPDX-License-Identifier: Apache-2.0
// Workers with batches of uneven size: together they are one worker with all samples.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "exec/batch_speeds.h"
#include "exec/execute.h"
#include "schemes/setup/uneven_batches.h"
#include "tests/cross/settings.h"

namespace tandem::tests {
namespace {

using ::testing::HasSubstr;

/// Means are settings' batch, 4.
std::vector<int64_t> uneven(int64_t devices) {
  return devices == 2   ? std::vector<int64_t>{7, 1}
         : devices == 3 ? std::vector<int64_t>{1, 2, 9}
                        : std::vector<int64_t>{5, 1, 8, 2};
}

/// Those whose workers sum their gradients in every step, and exactly.
bool sums(const Setting& s) {
  const Program p = make_program(execution(s, resolve_scheme(s.scheme, {}), "cpu", 1));
  const bool drops = !p.stores.empty() && p.stores[0].drop_late;
  return s.cluster.devices > 1 && p.grid.axes.empty() && !free_running(p) && !averages_models(p) && !drops &&
         s.facts.rounding >= 0;
}

std::vector<Setting> settings_that_sum() {
  std::vector<Setting> out;
  for (const Setting& s : settings()) {
    if (sums(s)) out.push_back(s);
  }
  return out;
}

TEST(UnevenBatches, AreTakenByWhoeverSums) { EXPECT_GE(settings_that_sum().size(), 50U); }

class UnevenSums : public testing::TestWithParam<Setting> {};

/// A gradient that is an integer counts as often as its worker has samples.
TEST_P(UnevenSums, IntegerSumsAreExact) {
  const Setting& s = GetParam();
  const ResolvedScheme scheme = resolve_scheme(s.scheme, {});
  for (const Backend& backend : backends()) {
    SCOPED_TRACE(backend.name);
    Execution e = execution(s, scheme, "cpu", 6);
    e.backend = &backend;
    e.integer_gradients = e.poison = true;
    e.job.batches = uneven(s.cluster.devices);
    const ExecutionResult r = execute(e, {false, false, true});
    Execution even = e;
    even.job.batches.clear();
    EXPECT_EQ(fingerprint(make_program(e)), fingerprint(make_program(even)));
    for (std::size_t i = 0; i < r.parameters.size(); ++i) {
      double sum = 0;
      for (uint32_t w = 0; w < s.cluster.devices; ++w) {
        for (int32_t t = 0; t < r.worker_iterations[w] - s.facts.late; ++t)
          sum += static_cast<double>(e.job.batches[w]) *
                 integer_gradient(w, static_cast<uint32_t>(t), static_cast<int64_t>(i));
      }
      ASSERT_NEAR(r.parameters[i], -sum, s.facts.rounding * std::max(1.0, std::abs(sum))) << "element " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Schemes, UnevenSums, testing::ValuesIn(settings_that_sum()));

TEST(UnevenBatches, EqualOneWorkerWithTheWholeBatch) {
  static const Dataset data = load_dataset(std::string(TANDEM_ROOT) + "/tests/cross/points.csv", false);
  for (const char* text :
       {"allreduce", "allreduce:bucket=1KiB,algorithm=ring", "parameter-server",
        "parameter-server:server=gpu,shards=1", "zero", "zero:stage=3,bucket=1KiB", "allreduce:accumulate=3",
        "zero:stage=2,accumulate=3,bucket=0B", "data-parallel-master"}) {
    for (const char* rule : {"sgd", "adam"}) {
      for (const std::size_t backend : {1, 3}) {
        for (const int64_t devices : {2, 3}) {
          SCOPED_TRACE(fmt::format("{} with {} on {} of {}", text, rule, devices, backends()[backend].name));
          const ResolvedScheme many = resolve_scheme(text, {}), one = resolve_scheme("allreduce", {});
          Execution a = execution({text, {devices, 1, devices}}, many, "cpu", 5),
                    b = execution({text, {1, 1, 1}}, one, "cpu", 5);
          a.backend = &backends()[backend];
          a.data = b.data = &data;
          a.job.batches = uneven(devices);
          const int32_t micro = make_program(a).micro_batches;
          b.job.batch = devices * a.job.batch * micro;
          a.job.optimizer = b.job.optimizer = &optimizer(rule);
          a.rate.base = b.rate.base = rule[0] == 's' ? 0.1 : 0.01;
          const ExecutionResult x = execute(a, {false, false, true}), y = execute(b, {false, false, true});
          ASSERT_EQ(x.parameters.size(), y.parameters.size());
          for (std::size_t i = 0; i < x.parameters.size(); ++i)
            ASSERT_NEAR(x.parameters[i], y.parameters[i], 1e-5) << i;
          ASSERT_EQ(x.losses.size(), y.losses.size());
          for (std::size_t i = 0; i < x.losses.size(); ++i) ASSERT_NEAR(x.losses[i], y.losses[i], 1e-5) << i;
          EXPECT_EQ(x.report.setup.samples_per_iteration, y.report.setup.samples_per_iteration);
        }
      }
    }
  }
}

/// Losses and gradients that are weighted by devices instead are something else: the test above can fail.
TEST(UnevenBatches, AreNotEqualBatches) {
  static const Dataset data = load_dataset(std::string(TANDEM_ROOT) + "/tests/cross/points.csv", false);
  const ResolvedScheme scheme = resolve_scheme("allreduce", {});
  const auto losses = [&](const std::vector<int64_t>& batches) {
    Execution e = execution({"allreduce", {2, 1, 2}}, scheme, "cpu", 5);
    e.data = &data;
    e.job.batch = std::accumulate(batches.begin(), batches.end(), int64_t{0}) / 2;
    if (batches[0] != batches[1]) e.job.batches = batches;
    e.rate.base = 0.1;
    return execute(e).losses;
  };
  EXPECT_NE(losses({7, 1}), losses({6, 2})) << "of other workers' samples, summed in another order";
  EXPECT_GT(std::abs(losses({7, 1}).back() - losses({9, 1}).back()), 1e-4) << "of other samples";
}

TEST(UnevenBatches, BatchNormalisationOverAllDevicesEqualsOneWorkers) {
  const auto learned = [](const std::vector<int64_t>& batches, bool sync, const Backend& backend) {
    const auto devices = static_cast<int64_t>(batches.size());
    return learned_digits("allreduce", {devices, 1, devices}, 12, sync, backend,
                          devices > 1 ? batches : std::vector<int64_t>{});
  };
  const ExecutionResult one = learned({12}, true, backends()[1]);
  for (const std::size_t backend : {1, 3}) {
    for (const std::vector<int64_t>& batches : {std::vector<int64_t>{9, 3}, std::vector<int64_t>{1, 8, 3}}) {
      SCOPED_TRACE(batches_text(batches));
      const ExecutionResult all = learned(batches, true, backends()[backend]);
      EXPECT_LT(furthest(all.parameters, one.parameters), 1e-4);
      EXPECT_LT(furthest(all.buffers, one.buffers), 1e-4) << "running statistics";
    }
  }
  EXPECT_GT(furthest(learned({9, 3}, false, backends()[1]).parameters, one.parameters), 1e-3)
      << "of their own samples they are another model's";
}

TEST(UnevenBatches, AreRefusedWhereTheyCannotBe) {
  const auto why = [](const char* text, const std::vector<int64_t>& batches, int64_t devices) -> std::string {
    const ResolvedScheme scheme = resolve_scheme(text, {});
    Execution e = execution({text, {devices, 1, devices}}, scheme, "null", 2);
    e.job.batches = batches;
    try {
      execute(e);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(why("allreduce", {7, 1}, 2), "");
  EXPECT_THAT(why("allreduce", {7, 1}, 3), HasSubstr("2 for 3 devices, which need one each"));
  EXPECT_THAT(why("allreduce", {8, 0}, 2), HasSubstr("every device needs at least 1 sample"));
  EXPECT_THAT(why("allreduce", {8, 1}, 2), HasSubstr("9 samples in all, where 2 devices of 4"));
  EXPECT_THAT(why("parameter-server:mode=async", {7, 1}, 2), HasSubstr("do not wait for each other"));
  EXPECT_THAT(why("local-sgd:every=2", {7, 1}, 2), HasSubstr("trained on equal batches"));
}

/// Both engines take the same list, and what the one refuses as a question the other does too.
TEST(UnevenBatches, ArePredictedAsTheyAreRun) {
  const Setting s{"allreduce", {3, 1, 3}};
  const ResolvedScheme scheme = resolve_scheme(s.scheme, {});
  Request p = prediction(s, scheme, 6);
  const double even = simulate(p).rate.samples_per_second;
  p.job.batches = uneven(3);
  const Report r = simulate(p);
  EXPECT_LT(r.rate.samples_per_second, even) << "the one with most samples is waited for";
  EXPECT_EQ(r.setup.samples_per_iteration, 12);
  p.job.batches = {7, 1};
  EXPECT_THROW(simulate(p), InputError);
}

/// Of a device whose calls take fifty times as long it gets fewer.
TEST(UnevenBatches, FollowMeasuredSpeeds) {
  const ResolvedScheme scheme = resolve_scheme("allreduce", {});
  Execution e = execution({"allreduce", {2, 1, 2}}, scheme, "cpu", 2);
  e.throttle = {{1, 50}};
  const std::vector<int64_t> batches = batches_by_speed(e);
  ASSERT_EQ(batches.size(), 2U);
  EXPECT_EQ(batches[0] + batches[1], 8);
  EXPECT_GE(batches[1], 1);
  EXPECT_GT(batches[0], batches[1]);
  e.job.batches = batches;
  EXPECT_EQ(execute(e).report.setup.samples_per_iteration, 8);
}

}  // namespace
}  // namespace tandem::tests
