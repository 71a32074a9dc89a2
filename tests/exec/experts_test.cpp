// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts on the CPU, held against sums in double precision written down here, and which tokens
// find a place where an expert's capacity is bounded.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "tests/exec/layer_run.h"

namespace tandem::tests {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// y = x[rows, n] W[n, m] of row `row`, plus what of `bias` begins at `at`.
Values product(const double* x, const Values& w, std::size_t begin, std::size_t n, std::size_t m,
               const Values& bias = {}, std::size_t at = 0) {
  Values y(m);
  for (std::size_t j = 0; j < m; ++j) {
    y[j] = bias.empty() ? 0 : bias[at + j];
    for (std::size_t i = 0; i < n; ++i) y[j] += x[i] * w[begin + i * m + j];
  }
  return y;
}

struct Mixture {
  std::size_t count, active, width, feed;
  bool sigmoid, normalized, bias;
  double scale, limit;

  std::string layer() const {
    return R"({"type": "experts", "count": )" + std::to_string(count) + R"(, "active": )" +
           std::to_string(active) + R"(, "feed": )" + std::to_string(feed) + R"(, "sigmoid": )" +
           (sigmoid ? "true" : "false") + R"(, "normalized": )" + (normalized ? "true" : "false") +
           R"(, "bias": )" + (bias ? "true" : "false") + R"(, "scale_percent": )" +
           std::to_string(std::lround(100 * scale)) + R"(, "limit": )" + std::to_string(limit) + "}";
  }

  Values scores(const Values& logits) const {
    Values out;
    for (const double x : logits) out.push_back(sigmoid ? tests::sigmoid(x) : std::exp(x));
    const double sum = std::accumulate(out.begin(), out.end(), 0.0);
    for (double& s : out) s /= sigmoid ? 1 : sum;
    return out;
  }
  double gated(double gate, double up) const {
    if (limit == 0) return gate * tests::sigmoid(gate) * up;
    const double g = std::min(gate, limit);
    return g * tests::sigmoid(1.702 * g) * (std::clamp(up, -limit, limit) + 1);
  }
  Values row(const LayerRun& run, const double* x) const {
    const auto biases = [&](const char* name) { return bias ? run.parameter(name) : Values{}; };
    const Values s = scores(product(x, run.parameter("router"), 0, width, count, biases("router_bias")));
    std::vector<std::size_t> order(count);
    std::iota(order.begin(), order.end(), 0U);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return s[a] > s[b]; });
    double sum = 0;
    for (std::size_t j = 0; j < active; ++j) sum += s[order[j]];
    Values y(width, 0.0);
    for (std::size_t j = 0; j < active; ++j) {
      const std::size_t e = order[j], matrix = e * width * feed;
      const Values gate = product(x, run.parameter("gate"), matrix, width, feed, biases("gate_up_bias"),
                                  e * 2 * feed),
                   up = product(x, run.parameter("up"), matrix, width, feed, biases("gate_up_bias"),
                                e * 2 * feed + feed);
      Values inner(feed);
      for (std::size_t k = 0; k < feed; ++k) inner[k] = gated(gate[k], up[k]);
      const Values out =
          product(inner.data(), run.parameter("down"), matrix, feed, width, biases("down_bias"), e * width);
      for (std::size_t k = 0; k < width; ++k) y[k] += scale * s[e] / (normalized ? sum : 1) * out[k];
    }
    return y;
  }
};

TEST(Experts, AddUpWhatTheChosenReturn) {
  for (const Mixture& m : {Mixture{8, 2, 6, 5, false, true, false, 1, 0},
                           {8, 3, 6, 5, false, false, false, 16, 0},
                           {7, 2, 6, 5, true, true, false, 2.5, 0},
                           {4, 4, 6, 5, false, true, true, 1, 0.5},
                           {5, 1, 6, 5, true, false, true, 1, 0}}) {
    LayerRun run({{9, 6}}, m.layer(), 2);
    run.change_input([](float x) { return 2 * x; });
    const Values x = run.input();
    Values want;
    for (std::size_t r = 0; r < 2 * 9; ++r) {
      const Values y = m.row(run, x.data() + r * m.width);
      want.insert(want.end(), y.begin(), y.end());
    }
    expect_near(run.run(), want, 3e-6, m.layer());
  }
}

/// Of 4 rows with 2 choices among 3 experts, which have 2 places each: first choices before second ones, each
/// in the order of the rows (GShard, algorithm 1).
TEST(Experts, OverTheirCapacityDropTheLastToCome) {
  const auto device = backends_registry().at("cpu").open({0, Precision::fp32, 1});
  Call call;
  call.function = Function::route;
  call.shape = {4, 3, 2, 2, 0, 1};
  call.scalars = {1};
  std::vector<float*> o;
  for (const int64_t n : {8, 8, 8, 3, 12, 12}) o.push_back(device->allocate(n));
  const float logits[] = {3, 2, 1,   // 0, then 1
                          3, 1, 2,   // 0, then 2
                          3, 2, 1,   // 0: no place, then 1
                          2, 3, 1};  // 1, then 0: no place
  std::copy(std::begin(logits), std::end(logits), o[5]);
  device->launch(device->prepare(call), o, {}, Lane::compute);
  const auto* places = reinterpret_cast<const int32_t*>(o[2]);
  const auto* counts = reinterpret_cast<const int32_t*>(o[3]);
  // Places of expert 0 are 0 and 1, of 1 are 2 and 3, of 2 are 4 and 5, of which one stays empty.
  EXPECT_EQ(std::vector<int32_t>(places, places + 8), (std::vector<int32_t>{0, 3, 1, 4, -1, -1, 2, -1}));
  EXPECT_EQ(std::vector<int32_t>(counts, counts + 3), (std::vector<int32_t>{2, 2, 2}));
}

/// Without a bound an expert's tokens lie in the order of the rows, whatever choice they were.
TEST(Experts, WithoutCapacityAllFindAPlace) {
  const auto device = backends_registry().at("cpu").open({0, Precision::fp32, 1});
  Call call;
  call.function = Function::route;
  call.shape = {3, 3, 2, 0, 1, 1};
  call.scalars = {1};
  std::vector<float*> o;
  for (const int64_t n : {6, 6, 6, 3, 9, 9}) o.push_back(device->allocate(n));
  const float logits[] = {3, 2, 1, 2, 3, 1, 1, 1, 1};  // of equal scores the first experts'
  std::copy(std::begin(logits), std::end(logits), o[5]);
  device->launch(device->prepare(call), o, {}, Lane::compute);
  const auto* places = reinterpret_cast<const int32_t*>(o[2]);
  const auto* counts = reinterpret_cast<const int32_t*>(o[3]);
  EXPECT_EQ(std::vector<int32_t>(places, places + 6), (std::vector<int32_t>{0, 3, 4, 1, 2, 5}));
  EXPECT_EQ(std::vector<int32_t>(counts, counts + 3), (std::vector<int32_t>{3, 3, 0}));
}

}  // namespace
}  // namespace tandem::tests
