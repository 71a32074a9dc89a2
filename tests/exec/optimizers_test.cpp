// SPDX-License-Identifier: Apache-2.0
// Optimisers that work on whole tensors, or keep their state in another form: each against its paper's rule
// written down plainly in double precision, and in whole executions.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/random.h"
#include "exec/execute.h"

namespace tandem::tests {
namespace {

using ::testing::HasSubstr;
using Doubles = std::vector<double>;

struct Shape {
  const char* name;
  int64_t elements, rows;
};
/// A matrix whose state is quantised, a small one, convolutions' weights, a vector, and one that is 0.
const std::vector<Shape> kShapes = {
    {"matrix", 70 * 81, 70}, {"small", 12, 3}, {"conv", 8 * 27, 8}, {"vector", 37, 0}, {"zero", 20, 4}};
constexpr int64_t kSteps = 6;
constexpr double kRate = 0.03, kScale = 0.5;

double norm(const Doubles& x) {
  double sum = 0;
  for (const double v : x) sum += v * v;
  return std::sqrt(sum);
}

/// You et al., algorithm 2.
struct LambReference {
  Doubles m, v;
  void step(const Shape&, Doubles& p, const Doubles& g, int64_t t) {
    m.resize(p.size());
    v.resize(p.size());
    Doubles r(p.size());
    for (std::size_t i = 0; i < p.size(); ++i) {
      m[i] = 0.9 * m[i] + 0.1 * g[i];
      v[i] = 0.999 * v[i] + 0.001 * g[i] * g[i];
      const double mean = m[i] / (1 - std::pow(0.9, t)), square = v[i] / (1 - std::pow(0.999, t));
      r[i] = mean / (std::sqrt(square) + 1e-6) + 0.01 * p[i];
    }
    const double ratio = norm(p) == 0 || norm(r) == 0 ? 1 : norm(p) / norm(r);
    for (std::size_t i = 0; i < p.size(); ++i) p[i] -= kRate * ratio * r[i];
  }
};

/// Shazeer and Stern, algorithms 4 (matrices) and 5 (vectors), with sums as they have them.
struct AdafactorReference {
  Doubles rows, columns;
  void step(const Shape& shape, Doubles& p, const Doubles& g, int64_t t) {
    const auto n = static_cast<std::size_t>(std::max<int64_t>(1, shape.rows)), m = p.size() / n;
    rows.resize(n);
    columns.resize(m);
    const double decay = 1 - std::pow(t, -0.8);
    for (double& r : rows) r *= decay;
    for (double& c : columns) c *= decay;
    for (std::size_t i = 0; i < p.size(); ++i) {
      const double square = (1 - decay) * (g[i] * g[i] + 1e-30);
      rows[i / m] += square;
      columns[i % m] += square;
    }
    double all = 0;
    for (const double r : rows) all += r;
    Doubles u(p.size());
    for (std::size_t i = 0; i < p.size(); ++i)
      u[i] = g[i] / std::sqrt(shape.rows > 0 ? rows[i / m] * columns[i % m] / all : columns[i]);
    const double count = std::sqrt(static_cast<double>(p.size()));
    const double clip = std::max(1.0, norm(u) / count), size = std::max(1e-3, norm(p) / count);
    for (std::size_t i = 0; i < p.size(); ++i) p[i] -= kRate * size * u[i] / clip;
  }
};

/// Dettmers et al.: AdamW on moments that are read from, and then put into, bytes by blocks of 256.
struct QuantisedReference {
  Doubles m, v;
  static Doubles values(bool with_sign) {
    Doubles out{0, 1};
    for (int e = 0; e < 7; ++e) {
      const int steps = (with_sign ? 1 : 2) << e;
      for (int k = 0; k < steps; ++k) {
        const double middle = std::pow(10.0, e - 6) * (0.1 + 0.9 * (k + 0.5) / steps);
        out.push_back(middle);
        if (with_sign) out.push_back(-middle);
      }
    }
    std::sort(out.begin(), out.end());
    return out;
  }
  static void round(Doubles& x, const Doubles& to) {
    for (std::size_t begin = 0; begin < x.size(); begin += 256) {
      const std::size_t end = std::min(x.size(), begin + 256);
      double most = 0;
      for (std::size_t i = begin; i < end; ++i) most = std::max(most, std::abs(x[i]));
      for (std::size_t i = begin; i < end && most > 0; ++i) {
        // Of values without a sign 0 is the least, and is of 0 alone.
        const auto from = to.begin() + (to[0] == 0 && x[i] > 0 ? 1 : 0);
        x[i] = most * *std::min_element(from, to.end(), [&](double a, double b) {
                 return std::abs(a - x[i] / most) < std::abs(b - x[i] / most);
               });
      }
    }
  }
  void step(const Shape&, Doubles& p, const Doubles& g, int64_t t) {
    m.resize(p.size());
    v.resize(p.size());
    for (std::size_t i = 0; i < p.size(); ++i) {
      m[i] = 0.9 * m[i] + 0.1 * g[i];
      v[i] = 0.999 * v[i] + 0.001 * g[i] * g[i];
      const double mean = m[i] / (1 - std::pow(0.9, t)), square = v[i] / (1 - std::pow(0.999, t));
      p[i] -= kRate * (0.01 * p[i] + mean / (std::sqrt(square) + 1e-8));
    }
    if (p.size() < 4096) return;
    round(m, values(true));
    round(v, values(false));
  }
};

/// Tensors behind each other, as they begin, and gradients of each step.
struct Numbers {
  std::vector<UpdatedTensor> tensors;
  std::vector<float> parameters;
  std::vector<std::vector<float>> gradients;
  int64_t words = 0;

  explicit Numbers(const Optimizer& rule) {
    SplitMix64 random(3);
    const auto uniform = [&] { return static_cast<float>(2 * to_unit(random.next()) - 1); };
    for (const Shape& s : kShapes) {
      tensors.push_back({static_cast<int64_t>(parameters.size()), s.elements, s.rows, words});
      words += rule.state_words(s.elements, s.rows);
      for (int64_t i = 0; i < s.elements; ++i)
        parameters.push_back(std::string_view(s.name) == "zero" ? 0 : uniform());
    }
    if (rule.flat()) {
      for (UpdatedTensor& t : tensors) t.state = 0;
    }
    for (int64_t step = 0; step < kSteps; ++step) {
      gradients.emplace_back();
      for (std::size_t i = 0; i < parameters.size(); ++i) gradients.back().push_back(uniform());
    }
  }
};

/// kSteps steps by the CPU's kernels.
std::vector<float> executed(const Optimizer& rule, const Numbers& n) {
  const auto device = backends_registry().at("cpu").open({});
  const auto all = static_cast<int64_t>(n.parameters.size());
  Call call;
  call.function = Function::update;
  call.shape = {all, &rule - optimizers().data()};
  call.tensors = n.tensors;
  float *p = device->allocate(all), *g = device->allocate(all), *state = device->allocate(n.words);
  std::vector<float*> operands{p, g, state};
  if (rule.flat()) operands.push_back(state + all);
  const uint32_t prepared = device->prepare(call);
  device->upload(p, n.parameters.data(), all);
  for (int64_t t = 1; t <= kSteps; ++t) {
    device->upload(g, n.gradients[static_cast<std::size_t>(t - 1)].data(), all);
    IterationState s;
    s.learning_rate = static_cast<float>(kRate);
    s.gradient_scale = static_cast<float>(kScale);
    s.updates = t;
    device->launch(prepared, operands, s, Lane::compute);
  }
  std::vector<float> out(n.parameters.size());
  device->download(out.data(), p, all);
  return out;
}

/// `loose`: of the step; where rounding decides between two bytes, an element's moment is another one.
template <typename Reference>
void expect_rule(const char* name, double loose) {
  const Optimizer& rule = optimizer(name);
  const Numbers n(rule);
  const std::vector<float> got = executed(rule, n);
  for (std::size_t k = 0; k < kShapes.size(); ++k) {
    const auto begin = n.parameters.begin() + n.tensors[k].first;
    Doubles p(begin, begin + kShapes[k].elements);
    const Doubles before = p;
    Reference reference;
    for (int64_t t = 1; t <= kSteps; ++t) {
      const auto from = n.gradients[static_cast<std::size_t>(t - 1)].begin() + n.tensors[k].first;
      Doubles g(from, from + kShapes[k].elements);
      for (double& x : g) x *= kScale;
      reference.step(kShapes[k], p, g, t);
    }
    double error = 0;
    Doubles moved;
    for (std::size_t i = 0; i < p.size(); ++i) {
      moved.push_back(p[i] - before[i]);
      const auto at = static_cast<std::size_t>(n.tensors[k].first) + i;
      error = std::max(error, std::abs(static_cast<double>(got[at]) - p[i]));
    }
    const double step = norm(moved) / std::sqrt(static_cast<double>(p.size()));
    EXPECT_GT(step, 1e-7) << name << " " << kShapes[k].name;
    const bool bytes = rule.state_bytes == 1 && p.size() >= 4096;
    EXPECT_LT(error, (bytes ? loose : 2e-6) * step + 3e-7) << name << " " << kShapes[k].name;
  }
}

TEST(Optimizers, LambIsThePapers) { expect_rule<LambReference>("lamb", 0); }
TEST(Optimizers, AdafactorIsThePapers) { expect_rule<AdafactorReference>("adafactor", 0); }
TEST(Optimizers, AdamwInBytesIsThePapers) {
  expect_rule<QuantisedReference>("adamw-8bit", 0.05);
  expect_rule<QuantisedReference>("adamw-8bit-paged", 0.05);
}

TEST(Optimizers, WhatIsNoNumberShows) {
  for (const char* name : {"lamb", "adafactor", "adamw-8bit"}) {
    const Optimizer& rule = optimizer(name);
    Numbers n(rule);
    n.gradients[2][5] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> got = executed(rule, n);
    EXPECT_TRUE(std::isnan(got[5])) << name;
    for (std::size_t i = 70 * 81; i < got.size(); ++i) ASSERT_TRUE(std::isfinite(got[i])) << name << " " << i;
  }
}

// ---- executions ----

struct Asked {
  const char* scheme = "allreduce";
  int64_t workers = 1;
  int32_t iterations = 8;
  const char* model = "digits-mlp";
  const char* offload = "off";
  const Checkpoint* start = nullptr;
  double rate = 0.01;
  int64_t batch = 32;  ///< of all workers
};

ExecutionResult run(const char* rule, const Asked& a, double* reached = nullptr) {
  const Graph graph = Graph::load(a.model);
  const ResolvedScheme scheme = resolve_scheme(a.scheme, Place{});
  static const Dataset data = load_dataset("digits", false), held_out = load_dataset("digits", true);
  Execution e;
  e.job.graph = &graph;
  e.job.scheme = &scheme;
  e.backend = &backends_registry().at("cpu");
  e.cluster = {a.workers, 1, a.workers};
  e.job.batch = a.batch / a.workers;
  e.job.optimizer = &optimizer(rule);
  e.job.offload = parse_offload(a.offload, {});
  e.iterations = a.iterations;
  e.warmup = 0;
  e.data = &data;
  e.rate.base = a.rate;
  e.start = a.start;
  Keep keep;
  keep.parameters = true;
  const ExecutionResult r = execute(e, keep);
  if (reached != nullptr) *reached = accuracy(graph, *e.backend, held_out, r);
  return r;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}
double most_apart(const std::vector<float>& a, const std::vector<float>& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    most = std::max(most, std::abs(static_cast<double>(a[i] - b[i])));
  return most;
}

const char* const kRules[] = {"lamb", "adafactor", "adamw-8bit", "adamw-paged", "adamw-8bit-paged"};

/// digits-mlp's first weight has 64 x 64 elements, which are put into bytes.
TEST(Optimizers, LearnTheSameOnOneWorkerAndOnFour) {
  for (const char* rule : kRules) {
    const ExecutionResult one = run(rule, {}), four = run(rule, {.workers = 4});
    const ExecutionResult split = run(rule, {.scheme = "pipeline:microbatches=4", .workers = 2, .batch = 16}),
                          served = run(rule, {"parameter-server", 2});
    for (const ExecutionResult* r : {&four, &split, &served}) {
      ASSERT_EQ(r->losses.size(), one.losses.size()) << rule;
      EXPECT_LT(most_apart(r->parameters, one.parameters),
                0.1 * most_apart(one.parameters, std::vector<float>(one.parameters.size())))
          << rule;
      EXPECT_NEAR(r->losses.back(), one.losses.back(), 2e-3) << rule;
    }
    EXPECT_LT(one.losses.back(), one.losses.front()) << rule;
  }
}

/// Buckets that cut a tensor: its update waits for the last of them.
TEST(Optimizers, AreTheSameHoweverBucketsAreCut) {
  for (const char* rule : kRules) {
    const ExecutionResult whole = run(rule, {"allreduce", 2});
    for (const char* scheme :
         {"allreduce:partition=1KiB,bucket=0B", "allreduce:bucket=0B", "allreduce:update=all,overlap=off"}) {
      const ExecutionResult cut = run(rule, {scheme, 2});
      EXPECT_TRUE(same_bits(cut.parameters, whole.parameters)) << rule << " " << scheme;
      EXPECT_TRUE(same_bits(cut.state, whole.state)) << rule << " " << scheme;
    }
    // Updates in front of the next forward pass.
    const ExecutionResult late = run(rule, {"allreduce:bucket=0B,priority=on", 2}),
                          cut = run(rule, {"allreduce:partition=3000B,bucket=0B,priority=on", 2});
    EXPECT_TRUE(same_bits(cut.parameters, late.parameters)) << rule;
    EXPECT_TRUE(same_bits(cut.state, late.state)) << rule;
    const ExecutionResult host =
        run(rule, {.workers = 2, .offload = std::string_view(rule).ends_with("paged") ? "off" : "optimizer"});
    EXPECT_TRUE(same_bits(host.parameters, whole.parameters)) << rule;
    EXPECT_TRUE(same_bits(host.state, whole.state)) << rule;
  }
}

TEST(Optimizers, GoOnFromACheckpointToTheBit) {
  for (const char* rule : kRules) {
    for (const auto& [scheme, workers] : {std::pair{"allreduce", 2}, std::pair{"pipeline:microbatches=2", 2},
                                          std::pair{"parameter-server", 1}}) {
      Asked a{scheme, workers};
      a.model = "digits-cnn";
      const ExecutionResult whole = run(rule, a);
      a.iterations = 5;
      const ExecutionResult part = run(rule, a);
      const Graph graph = Graph::load(a.model);
      const std::string path = testing::TempDir() + "/optimizers.tandem";
      save_checkpoint(path, graph, optimizer(rule), {5, part.parameters, part.state, part.buffers});
      const Checkpoint saved = load_checkpoint(path, graph, optimizer(rule));
      std::remove(path.c_str());
      a.iterations = 3;
      a.start = &saved;
      const ExecutionResult rest = run(rule, a);
      EXPECT_TRUE(same_bits(rest.parameters, whole.parameters)) << rule << " " << scheme;
      EXPECT_TRUE(same_bits(rest.state, whole.state)) << rule << " " << scheme;
    }
  }
}

TEST(Optimizers, KeepWhatTheyNeed) {
  const auto memory = [](const char* rule) { return run(rule, {.iterations = 1}).report.memory; };
  const Graph graph = Graph::load("digits-mlp");
  for (const char* rule : kRules) {
    int64_t words = 0;
    for (const Layer& l : graph.layers()) {
      for (const Parameter& p : l.parameters) words += optimizer(rule).state_words(p.elements, p.rows);
    }
    const MemoryUse m = memory(rule);
    EXPECT_EQ(optimizer(rule).paged ? m.host.n : m.optimizer.n, 4 * words) << rule;
    EXPECT_EQ(optimizer(rule).paged ? m.optimizer.n : m.host.n, 0) << rule;
  }
  EXPECT_LT(5 * memory("adafactor").optimizer.n, memory("adamw").optimizer.n);
  EXPECT_LT(2 * memory("adamw-8bit").optimizer.n, memory("adamw").optimizer.n);
}

std::string refused(const char* rule, const Asked& a) {
  try {
    run(rule, a);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Optimizers, RefuseWhatCutsTheirTensors) {
  for (const char* rule : {"lamb", "adafactor", "adamw-8bit"}) {
    EXPECT_THAT(refused(rule, {"zero:stage=1", 2}), HasSubstr("a share of each bucket")) << rule;
    EXPECT_THAT(refused(rule, {"fsdp", 2}), HasSubstr("a share of each bucket")) << rule;
    EXPECT_THAT(refused(rule, {"tensor-parallel", 2, 1, "transformer-tiny"}),
                HasSubstr("parts of those of layer"))
        << rule;
    EXPECT_THAT(refused(rule, {"parameter-server:shards=2", 2}), HasSubstr("each server has parts")) << rule;
    EXPECT_EQ(refused(rule, {"zero:stage=1", 1}), "accepted") << rule;
    EXPECT_EQ(refused(rule, {"local-sgd:every=2", 2}), "accepted") << rule;
  }
  EXPECT_THAT(refused("adafactor", {"parameter-averaging:every=2,state=params+optimizer", 2}),
              HasSubstr("no state in vectors of fp32"));
  EXPECT_EQ(refused("lamb", {"parameter-averaging:every=2,state=params+optimizer", 2}), "accepted");
  EXPECT_EQ(refused("adamw-paged", {"zero:stage=1", 2}), "accepted");
}

TEST(Optimizers, TrainARealModel) {
  for (const auto& [rule, rate] :
       {std::pair{"lamb", 0.006}, std::pair{"adafactor", 0.03}, std::pair{"adamw-8bit", 0.003}}) {
    double reached = 0;
    const ExecutionResult r = run(rule, {"allreduce", 2, 300, "digits-cnn", "off", nullptr, rate}, &reached);
    EXPECT_LT(r.losses.back(), 0.15 * r.losses.front()) << rule;
    EXPECT_GE(reached, 0.95) << rule;
  }
}

}  // namespace
}  // namespace tandem::tests
