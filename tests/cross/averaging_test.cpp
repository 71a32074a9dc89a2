// SPDX-License-Identifier: Apache-2.0
// Schemes that average parameters, against the recurrences of their papers; and how stale others' models are.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "exec/execute.h"
#include "sim/bind/gather.h"
#include "sim/evaluate/events.h"
#include "tests/cross/settings.h"

namespace tandem::tests {
namespace {

/// One element of the parameters of every worker, which train with integer gradients and meet every so often.
struct Recurrence {
  std::vector<double> x;
  double anchor = 0, velocity = 0;
  double mean() const { return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size()); }
};

using Meet = void (*)(Recurrence& r);

/// Douillard et al. 2023, algorithm 1: the mean of what workers moved is the outer gradient of Nesterov's SGD
/// (rate 0.7, momentum 0.9; torch.optim.SGD: b = momentum b + g; p -= rate (g + momentum b)).
void diloco(Recurrence& r) {
  const double g = r.anchor - r.mean();
  r.velocity = 0.9 * r.velocity + g;
  r.anchor -= 0.7 * (g + 0.9 * r.velocity);
  r.x.assign(r.x.size(), r.anchor);
}

/// Chen and Huo 2016: G = mean - W; Delta = eta Delta + zeta G; here W += Delta (classical block momentum)
/// ...
void bmuf_classical(Recurrence& r) {
  const double eta = 1 - 1 / static_cast<double>(r.x.size());
  r.velocity = eta * r.velocity + (r.mean() - r.anchor);
  r.anchor += r.velocity;
  r.x.assign(r.x.size(), r.anchor);
}

/// ... and here workers begin at W + eta Delta, which `anchor` is (Nesterov block momentum).
void bmuf_nesterov(Recurrence& r) {
  const double eta = 1 - 1 / static_cast<double>(r.x.size());
  const double model = r.anchor - eta * r.velocity;  // W
  const double delta = eta * r.velocity + (r.mean() - r.anchor);
  r.velocity = delta;
  r.anchor = model + delta + eta * delta;
  r.x.assign(r.x.size(), r.anchor);
}

/// Zhang et al. 2015, equations 5 and 6, with beta = 0.9 = workers alpha.
void elastic(Recurrence& r) {
  const double alpha = 0.9 / static_cast<double>(r.x.size()), centre = r.anchor;
  for (double& x : r.x) {
    r.anchor += alpha * (x - centre);
    x -= alpha * (x - centre);
  }
}

struct Case {
  const char* scheme;
  int32_t every;
  Meet meet;
  bool centre;  ///< the result is the anchor, else the first worker's own
};

TEST(Averaging, TrainsAsThePapersSay) {
  constexpr int32_t kIterations = 13;
  for (const Case& c : {Case{"diloco:every=3", 3, diloco, false},
                        {"bmuf:every=3,nesterov=off", 3, bmuf_classical, false},
                        {"bmuf:every=4", 4, bmuf_nesterov, false},
                        {"elastic-averaging:every=3", 3, elastic, true}}) {
    for (const int64_t workers : {2, 4}) {
      const ResolvedScheme scheme = resolve_scheme(c.scheme, {});
      for (const Backend& backend : backends()) {
        SCOPED_TRACE(fmt::format("{} on {} of {}", c.scheme, workers, backend.name));
        Execution e = execution({c.scheme, {workers, 1, workers}}, scheme, "cpu", kIterations);
        e.backend = &backend;
        e.integer_gradients = true;
        const ExecutionResult r = execute(e, {false, false, true});
        for (std::size_t i = 0; i < r.parameters.size(); ++i) {
          Recurrence own{std::vector<double>(static_cast<std::size_t>(workers)), 0, 0};
          for (int32_t t = 0; t < kIterations; ++t) {
            for (uint32_t w = 0; w < workers; ++w)
              own.x[w] -= integer_gradient(w, static_cast<uint32_t>(t), static_cast<int64_t>(i));
            if ((t + 1) % c.every == 0) c.meet(own);
          }
          ASSERT_NEAR(r.parameters[i], c.centre ? own.anchor : own.x[0], 1e-4) << i;
        }
      }
    }
  }
}

/// Liu et al. 2024, algorithm 3 with one worker, of one or two devices: every movement ends a round, which is
/// DiLoCo's step.
TEST(Averaging, OneAsynchronousWorkerIsDiLoCo) {
  constexpr int32_t kIterations = 13, kEvery = 3;
  const ResolvedScheme scheme = resolve_scheme("async-diloco:every=3,worker=node", {});
  for (const Backend& backend : backends()) {
    SCOPED_TRACE(backend.name);
    Execution e = execution({"async-diloco", {2, 1, 2}}, scheme, "cpu", kIterations);
    e.backend = &backend;
    e.integer_gradients = true;
    const ExecutionResult r = execute(e, {false, false, true});
    for (std::size_t i = 0; i < r.parameters.size(); ++i) {
      Recurrence own{{0}, 0, 0};
      for (int32_t t = 0; t < kIterations; ++t) {
        for (uint32_t w = 0; w < 2; ++w)  // integer gradients are summed
          own.x[0] -= integer_gradient(w, static_cast<uint32_t>(t), static_cast<int64_t>(i));
        if ((t + 1) % kEvery == 0) diloco(own);
      }
      ASSERT_NEAR(r.parameters[i], own.anchor, 1e-3) << i;
    }
  }
}

/// What two workers moved counts half each, in whatever order it arrives: the first ends with some of its own
/// movements and some of the other's, the faster one having made more of the iterations.
TEST(Averaging, AsynchronousWorkersShareTheOuterRate) {
  constexpr uint32_t kEvery = 4, kMost = 4;
  const ResolvedScheme scheme = resolve_scheme("async-diloco:every=4,outer=sgd,outer-rate=0.5", {});
  Execution e = execution({"async-diloco", {2, 1, 2}}, scheme, "cpu", 2 * kEvery);
  e.integer_gradients = true;
  const ExecutionResult r = execute(e, {false, false, true});
  std::set<std::pair<uint32_t, uint32_t>> seen;  // movements of each that explain all elements
  for (uint32_t own = 1; own <= kMost; ++own) {
    for (uint32_t others = 0; others + own <= kMost; ++others) seen.emplace(own, others);
  }
  for (std::size_t i = 0; i < r.parameters.size(); ++i) {
    const auto moved = [&](uint32_t w, uint32_t movements) {
      double sum = 0;
      for (uint32_t t = 0; t < movements * kEvery; ++t)
        sum -= integer_gradient(w, t, static_cast<int64_t>(i));
      return sum;
    };
    std::erase_if(seen, [&](const auto& of) {
      return std::abs(r.parameters[i] - 0.25 * (moved(0, of.first) + moved(1, of.second))) > 1e-4;
    });
  }
  EXPECT_EQ(seen.size(), 1U);
}

/// Twelve iterations at once, and six and six with what a checkpoint holds in between.
TEST(Averaging, GoesOnFromACheckpoint) {
  const ResolvedScheme scheme = resolve_scheme("diloco:every=3", {});
  const auto run = [&](int32_t iterations, const Checkpoint* start) {
    Execution e = execution({"diloco", {2, 1, 2}}, scheme, "cpu", iterations);
    e.job.optimizer = &optimizer("sgd");
    e.start = start;
    const ExecutionResult r = execute(e, {false, false, true});
    return Checkpoint{iterations, r.parameters, r.state, r.buffers, r.averaging};
  };
  const Checkpoint whole = run(12, nullptr), half = run(6, nullptr);
  ASSERT_EQ(half.averaging.size(), 2 * half.parameters.size());
  const Checkpoint resumed = run(6, &half);
  for (std::size_t i = 0; i < whole.parameters.size(); ++i)
    ASSERT_NEAR(resumed.parameters[i], whole.parameters[i], 1e-6) << i;
  Checkpoint other = half;
  other.averaging.resize(half.parameters.size());
  EXPECT_THROW(run(6, &other), InputError) << "of a scheme that keeps less";
  const ResolvedScheme switching = resolve_scheme("post-local-sgd:after=8,every=4", {});
  Execution e = execution({"post-local-sgd", {2, 1, 2}}, switching, "null", 6);
  e.start = &half;
  int64_t sums = 0, averages = 0;
  const ExecutionResult r = execute(e, {false, true, false});
  const Program p = make_program(e);
  for (const Span& span : r.spans) {
    const Op& op = p.roles[0].ops[span.op];
    if (op.kind == OpKind::collective) ++(op.payload == Payload::gradients ? sums : averages);
  }
  EXPECT_EQ(sums, 2 * 2 * static_cast<int64_t>(p.buckets.size())) << "iterations 6 and 7";
  EXPECT_GT(averages, 0);
}

/// Each worker averages once an iteration with another, who is then averaged with: every gradient has seen
/// its own average, and in the mean one that another began.
TEST(Averaging, GossipIsTwoVersionsBehindInBothEngines) {
  constexpr int32_t kIterations = 400;
  for (const char* text : {"gossip:partner=ring,overlap=off", "gossip"}) {
    const ResolvedScheme scheme = resolve_scheme(text, {});
    const Setting s{text, {4, 1, 4}};
    Execution e = execution(s, scheme, "cpu", kIterations);
    e.warmup = 0;
    const ExecutionResult r = execute(e);
    const BoundProgram plan = make_plan(prediction(s, scheme, kIterations));
    EvaluateOptions options;
    options.iterations = kIterations;
    const Trace trace = run_events(plan, options);
    for (const Histogram* h : {&r.report.staleness.all, &trace.staleness}) {
      EXPECT_EQ(h->count(), 4 * kIterations);
      EXPECT_LE(h->mean(), 2.0) << text;  // averages behind a worker's last update are seen by nobody
      EXPECT_GE(h->mean(), 2.0 - 4.0 * 8 / kIterations) << text;
    }
    EXPECT_EQ(r.versions, 2 * 4 * kIterations);
    EXPECT_EQ(trace.versions, r.versions);
  }
}

/// A worker of a third of the speed holds nobody back, and its own model is averaged with meanwhile.
TEST(Averaging, GossipWaitsForNobody) {
  const ResolvedScheme gossip = resolve_scheme("gossip", {}), sync = resolve_scheme("allreduce", {});
  const auto rate = [](const ResolvedScheme& scheme, bool slow) {
    Request p = prediction({scheme.name, {4, 1, 4}}, scheme, 200);
    if (slow) p.disturbance->slow = {{3, 3.0}};
    return simulate(p);
  };
  const Report slowed = rate(gossip, true);
  EXPECT_GT(slowed.rate.samples_per_second / rate(gossip, false).rate.samples_per_second, 0.8);
  EXPECT_LT(rate(sync, true).rate.samples_per_second / rate(sync, false).rate.samples_per_second, 0.8);
  EXPECT_GT(slowed.staleness.by_worker[3].mean(), slowed.staleness.by_worker[0].mean() + 0.3);
}

/// The server divides by what it has counted: what reaches the parameters is less than the whole sum exactly
/// where something was stale.
TEST(Averaging, StaleGradientsAreAppliedWithLess) {
  const auto run = [](const char* text, int64_t workers) {
    const ResolvedScheme scheme = resolve_scheme(text, {});
    Execution e = execution({text, {workers, 1, workers}}, scheme, "null", 200);
    e.integer_gradients = true;
    return execute(e, {false, false, true});
  };
  for (const char* text : {"parameter-server:mode=async,rate=by-staleness,overlap=off",
                           "parameter-server:mode=async,rate=delay-adaptive,overlap=off"}) {
    const ExecutionResult r = run(text, 3);
    double whole = 0, less = 0;
    for (std::size_t i = 0; i < r.parameters.size(); ++i) {
      double sum = 0;
      for (uint32_t w = 0; w < 3; ++w) {
        for (int32_t t = 0; t < r.worker_iterations[w]; ++t)
          sum -= integer_gradient(w, static_cast<uint32_t>(t), static_cast<int64_t>(i));
      }
      whole += sum * sum;
      less += std::pow(static_cast<double>(r.parameters[i]) - sum, 2);
    }
    const bool stale =
        r.report.staleness.all.max() > (std::string(text).find("delay") == std::string::npos ? 1 : 3);
    EXPECT_EQ(less > 1e-6 * whole, stale) << text;
  }
}

/// The rate is a matter of learning, not of time.
TEST(Averaging, RatesByStalenessTakeNoTime) {
  const auto predicted = [](const char* text) {
    const ResolvedScheme scheme = resolve_scheme(text, {});
    return simulate(prediction({text, {4, 1, 4}}, scheme, 100));
  };
  const Report fixed = predicted("parameter-server:mode=async");
  for (const char* text :
       {"parameter-server:mode=async,rate=by-staleness", "parameter-server:mode=async,rate=delay-adaptive"}) {
    EXPECT_EQ(predicted(text).rate.samples_per_second, fixed.rate.samples_per_second);
    EXPECT_EQ(predicted(text).staleness.all.mean(), fixed.staleness.all.mean());
  }
}

}  // namespace
}  // namespace tandem::tests
