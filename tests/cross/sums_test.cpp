// SPDX-License-Identifier: Apache-2.0
// What reaches the parameters: exact sums of integer gradients, and what one worker computes with the whole
// batch.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "exec/execute.h"
#include "tests/cross/settings.h"

namespace tandem::tests {
namespace {

/// The solution of a square system, by elimination with row exchanges.
std::vector<double> solved(std::vector<std::vector<double>> a, std::vector<double> b) {
  const std::size_t n = b.size();
  for (std::size_t k = 0; k < n; ++k) {
    std::size_t most = k;
    for (std::size_t r = k; r < n; ++r) most = std::abs(a[r][k]) > std::abs(a[most][k]) ? r : most;
    std::swap(a[k], a[most]);
    std::swap(b[k], b[most]);
    for (std::size_t r = 0; r < n; ++r) {
      if (r == k || a[k][k] == 0) continue;
      const double factor = a[r][k] / a[k][k];
      for (std::size_t c = k; c < n; ++c) a[r][c] -= factor * a[k][c];
      b[r] -= factor * b[k];
    }
  }
  for (std::size_t k = 0; k < n; ++k) b[k] /= a[k][k];
  return b;
}

/// Which of the gradients, (worker, iteration), reached elements [first, first + elements): each whole or not
/// at all, and there are more elements than gradients, so that the first elements' sums tell which.
std::vector<int> kept_in(const std::vector<float>& parameters, int64_t first, int64_t elements,
                         const std::vector<std::pair<uint32_t, uint32_t>>& made) {
  const std::size_t gradients = made.size();
  const auto gradient = [&](std::size_t g, int64_t element) {
    return integer_gradient(made[g].first, made[g].second, element);
  };
  std::vector<std::vector<double>> a(gradients, std::vector<double>(gradients));
  std::vector<double> b(gradients);
  for (std::size_t i = 0; i < gradients; ++i) {
    const int64_t element = first + static_cast<int64_t>(i);
    for (std::size_t g = 0; g < gradients; ++g) a[i][g] = gradient(g, element);
    b[i] = -parameters[static_cast<std::size_t>(element)];
  }
  std::vector<int> kept;
  for (const double x : solved(a, b)) {
    EXPECT_NEAR(x, std::round(x), 1e-6);
    kept.push_back(static_cast<int>(std::lround(x)));
    EXPECT_TRUE(kept.back() == 0 || kept.back() == 1) << "merged " << x << " times";
  }
  for (int64_t i = first; i < first + elements; ++i) {
    int64_t sum = 0;
    for (std::size_t g = 0; g < gradients; ++g) sum += kept[g] * gradient(g, i);
    EXPECT_EQ(static_cast<double>(parameters[static_cast<std::size_t>(i)]), static_cast<double>(-sum)) << i;
  }
  return kept;
}

/// Of a store that drops what comes too late, which is a matter of timing.
void expect_kept_sums(const ExecutionResult& r, const Program& p) {
  std::vector<std::pair<uint32_t, uint32_t>> made;
  for (uint32_t w = 0; w < r.worker_iterations.size(); ++w) {
    for (int32_t i = 0; i < r.worker_iterations[w]; ++i) made.emplace_back(w, i);
  }
  const auto gradients = static_cast<int64_t>(made.size());
  const int64_t shards = p.roles[p.stores[0].role].mesh.size();
  int64_t kept = 0, slices = 0;
  for (const Bucket& part : p.buckets) {
    for (int64_t s = 0; s < shards; ++s) {  // cut evenly, the first ones one element longer
      const int64_t each = part.elements / shards, rest = part.elements % shards;
      const int64_t first = part.first + each * s + std::min(rest, s), elements = each + (s < rest ? 1 : 0);
      ASSERT_GT(elements, 2 * gradients) << "too few to tell which were kept";
      const std::vector<int> which = kept_in(r.parameters, first, elements, made);
      kept += std::accumulate(which.begin(), which.end(), 0);
      ++slices;
    }
  }
  // What waits for the last gradient of its version has not reached the parameters.
  EXPECT_EQ(kept, r.versions * p.stores[0].batch);
  EXPECT_LE(kept, r.updates);
  EXPECT_EQ(r.updates + r.dropped, gradients * slices);
}

/// One run whose gradients are integers that depend on (worker, iteration, element) only: what reaches the
/// parameters is their exact sum, in whatever order they arrived.
void expect_exact_sums(const Setting& s, const Backend& backend, bool linked) {
  SCOPED_TRACE(std::string(backend.name) + (linked ? " over links" : ""));
  const ResolvedScheme scheme = resolve_scheme(s.scheme, {});
  constexpr int32_t kIterations = 12;
  Execution e = execution(s, scheme, "cpu", kIterations);
  if (linked) e.rate_limit = RateLimit{{1e9}, Time::from_seconds(20e-6)};
  if (linked && s.cluster.nodes == 1) e.cluster = {s.cluster.devices, s.cluster.devices, 1};
  e.backend = &backend;
  e.integer_gradients = e.poison = true;
  const ExecutionResult r = execute(e, {false, false, true});
  const Program p = make_program(e);
  if (e.cluster.nodes > 1) EXPECT_GT(r.sent_between_nodes, 0) << "over TCP, whatever the scheme";
  ASSERT_EQ(static_cast<int64_t>(r.parameters.size()), model().parameter_elements());
  EXPECT_EQ(std::accumulate(r.worker_iterations.begin(), r.worker_iterations.end(), 0),
            kIterations * p.micro_batches * s.cluster.devices);
  if (!p.stores.empty() && p.stores[0].drop_late) return expect_kept_sums(r, p);
  EXPECT_EQ(r.dropped, 0);
  if (s.facts.rounding < 0) return;
  const bool averages = (!p.stores.empty() && p.stores[0].averaging.rule != Averaging::Rule::none) ||
                        std::any_of(p.roles[0].ops.begin(), p.roles[0].ops.end(), [&](const Op& op) {
                          return op.kind == OpKind::collective && op.payload != Payload::gradients &&
                                 op.payload != Payload::shard &&
                                 p.collectives[op.what].kind == CollKind::all_reduce;
                        });
  for (std::size_t i = 0; i < r.parameters.size(); ++i) {
    double sum = 0, own = 0;
    for (uint32_t w = 0; w < s.cluster.devices; ++w) {
      for (int32_t t = 0; t < r.worker_iterations[w] - s.facts.late; ++t)
        (averages && t >= s.facts.sums_until ? own : sum) +=
            integer_gradient(w, static_cast<uint32_t>(t), static_cast<int64_t>(i));
    }
    const double all = sum + own / static_cast<double>(s.cluster.devices);
    if (s.facts.rounding == 0)
      ASSERT_EQ(static_cast<double>(r.parameters[i]), -all) << "element " << i;
    else
      ASSERT_NEAR(r.parameters[i], -all, s.facts.rounding * std::max(1.0, std::abs(all))) << "element " << i;
  }
}

class Sums : public testing::TestWithParam<Setting> {};

TEST_P(Sums, IntegerSumsAreExact) {
  for (const Backend& backend : backends()) expect_exact_sums(GetParam(), backend, false);
}

INSTANTIATE_TEST_SUITE_P(Schemes, Sums, testing::ValuesIn(settings()));

/// With a node for each worker, as far as they are not on nodes yet, and messages over TCP.
class SumsOverLinks : public testing::TestWithParam<Setting> {};

TEST_P(SumsOverLinks, IntegerSumsAreExact) {
  for (const std::size_t backend : {1, 3}) expect_exact_sums(GetParam(), backends()[backend], true);
}

INSTANTIATE_TEST_SUITE_P(Schemes, SumsOverLinks, testing::ValuesIn(settings_over_links()));

/// Twenty steps of an optimiser with state that is on the host, as of one worker that has it on its device;
/// so are a checkpoint's state and what goes on from there.
TEST(Execute, OffloadedTrainingEqualsOneWorkersWithTheWholeBatch) {
  for (const auto& [text, offload] : std::initializer_list<std::pair<const char*, const char*>>{
           {"allreduce:bucket=1KiB", "optimizer"},
           {"allreduce:accumulate=3", "optimizer"},
           {"zero:stage=1,bucket=1KiB", "optimizer"},
           {"zero:stage=2", "optimizer+gradients"},
           {"zero:stage=2,accumulate=3,bucket=1KiB", "optimizer+gradients"},
           {"zero:stage=3,bucket=1KiB", "optimizer"},
           {"zero:stage=3,bucket=1KiB,accumulate=2", "optimizer+parameters"},
           {"zero:stage=3,bucket=0B", "optimizer+gradients+parameters"}}) {
    const ResolvedScheme many = resolve_scheme(text, {}), one = resolve_scheme("allreduce", {});
    static const Dataset data = load_dataset(std::string(TANDEM_ROOT) + "/tests/cross/points.csv", false);
    for (const std::size_t backend : {1, 3}) {
      for (const uint32_t workers : {1U, 2U}) {
        SCOPED_TRACE(fmt::format("{} with {} on {} of {}", text, offload, workers, backends()[backend].name));
        Execution a = execution({text, {workers, 1, workers}, {}, offload}, many, "cpu", 20),
                  b = execution({text, {1, 1, 1}}, one, "cpu", 20);
        a.backend = &backends()[backend];
        a.data = b.data = &data;
        b.job.batch = workers * a.job.batch * make_program(a).micro_batches;
        a.job.optimizer = b.job.optimizer = &optimizer("adamw");
        a.rate.base = b.rate.base = 0.01;
        a.poison = true;
        const ExecutionResult x = execute(a, {false, false, true}), y = execute(b, {false, false, true});
        ASSERT_EQ(x.parameters.size(), y.parameters.size());
        ASSERT_EQ(x.state.size(), y.state.size());
        for (std::size_t i = 0; i < x.parameters.size(); ++i)
          ASSERT_NEAR(x.parameters[i], y.parameters[i], 1e-5) << i;
        for (std::size_t i = 0; i < x.state.size(); ++i) ASSERT_NEAR(x.state[i], y.state[i], 1e-5) << i;
        EXPECT_EQ(x.report.memory.optimizer.n, 0);
      }
    }
  }
}

/// N workers that sum their gradients compute what one computes on the N-fold batch.
TEST(Execute, SynchronousWorkersEqualOneWithTheWholeBatch) {
  for (const char* text :
       {"allreduce", "post-local-sgd:after=100", "parameter-server", "parameter-server:server=gpu,shards=1",
        "zero", "zero:stage=3,bucket=1KiB", "allreduce:accumulate=3", "zero:stage=1,accumulate=3",
        "zero:stage=2,accumulate=3,bucket=0B", "zero:stage=3,accumulate=3,bucket=1KiB",
        "zero:stage=3,accumulate=2,overlap=off", "zero:stage=1,sharding-group=node,accumulate=3",
        "zero:stage=3,sharding-group=node,accumulate=2,bucket=1KiB"}) {
    const bool nodes = std::string_view(text).find("=node") != std::string_view::npos;
    const Cluster cluster = nodes ? Cluster{4, 2, 2} : Cluster{2, 1, 2};
    const ResolvedScheme many = resolve_scheme(text, {}), one = resolve_scheme("allreduce", {});
    Execution a = execution({text, cluster}, many, "cpu", 5), b = execution({text, {1, 1, 1}}, one, "cpu", 5);
    static const Dataset data = load_dataset(std::string(TANDEM_ROOT) + "/tests/cross/points.csv", false);
    a.data = b.data = &data;
    b.job.batch = cluster.devices * a.job.batch * make_program(a).micro_batches;
    a.rate.base = b.rate.base = 0.1;
    a.poison = true;
    const auto x = execute(a, {false, false, true}).parameters,
               y = execute(b, {false, false, true}).parameters;
    ASSERT_EQ(x.size(), y.size());
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], 1e-5) << text << " " << i;
  }
}

}  // namespace
}  // namespace tandem::tests
