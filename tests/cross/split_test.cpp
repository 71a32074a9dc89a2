// SPDX-License-Identifier: Apache-2.0
// Models split over workers: what they train, and that both engines run the same ops.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "exec/execute.h"
#include "exec/lower/execution_graph.h"
#include "sim/bind/gather.h"
#include "sim/simulate.h"
#include "tests/cross/splits.h"

namespace tandem::tests {
namespace {

int64_t micro_batches(const Program& p) {
  int64_t most = 0;
  for (const Role& role : p.roles) {
    for (const Op& op : role.ops) most = std::max<int64_t>(most, op.micro + 1);
  }
  return most;
}

class Splits : public testing::TestWithParam<SplitCase> {};

void expect_close(const std::vector<float>& a, const std::vector<float>& b, float bound = 1e-5F) {
  ASSERT_EQ(a.size(), b.size());
  float most = 0;
  bool numbers = true;
  for (std::size_t i = 0; i < a.size(); ++i) {
    numbers = numbers && std::isfinite(a[i]);
    most = std::max(most, std::abs(a[i] - b[i]));
  }
  EXPECT_TRUE(numbers);
  EXPECT_LE(most, bound);
}

/// One worker with all the samples of a step in one batch; of text, whose samples are drawn for each replica,
/// one for each that sums micro-batches.
ExecutionResult on_one_worker(const SplitCase& s, int64_t micros) {
  const bool text = of_text(s);
  const ResolvedScheme scheme =
      resolve_scheme(fmt::format("allreduce:accumulate={}", text ? micros : 1), Place{});
  const int64_t workers = text ? s.replicas : 1;
  Execution e = split_execution({"allreduce", workers, workers, s.of}, scheme);
  if (!text) e.job.batch = 2 * micros * s.replicas;
  e.iterations -= s.late;
  return execute(e, {false, false, true});
}

TEST_P(Splits, TrainAsOneWorkerDoesOnTheWholeBatch) {
  const SplitCase& s = GetParam();
  const ResolvedScheme scheme = resolve_scheme(s.scheme, Place{});
  const Execution e = split_execution(s, scheme);
  const ExecutionResult whole = on_one_worker(s, micro_batches(make_program(e)));
  for (const Backend& backend : {backends()[1], backends()[3]}) {
    SCOPED_TRACE(backend.name);
    Execution split = e;
    split.backend = &backend;
    const ExecutionResult r = execute(split, {false, false, true});
    expect_close(r.parameters, whole.parameters);
    // A momentum is a sum of ten gradients and of their rounding; those behind a norm of small numbers are
    // large.
    float largest = 0;
    for (const float x : whole.state) largest = std::max(largest, std::abs(x));
    expect_close(r.state, whole.state, std::max(1e-4F, 2e-4F * largest));
    ASSERT_EQ(r.losses.size(), whole.losses.size() + static_cast<std::size_t>(s.late));
    // Rounding grows from step to step, on some processors to 1e-5 in twenty.
    for (std::size_t i = 0; i < whole.losses.size(); ++i)
      EXPECT_NEAR(r.losses[i], whole.losses[i], 2e-5) << i;
  }
}

/// Nodes that the machine emulates: messages and sums go over TCP.
TEST_P(Splits, TrainAlikeOverLinks) {
  const SplitCase& s = GetParam();
  const ResolvedScheme scheme = resolve_scheme(s.scheme, Place{});
  Execution e = split_execution(s, scheme);
  e.iterations = 6;
  const ExecutionResult near = execute(e, {false, false, true});
  if (s.nodes == 1)
    e.cluster = {s.devices, s.devices % 2 == 0 ? 2 : s.devices, s.devices % 2 == 0 ? s.devices / 2 : 1};
  e.rate_limit = RateLimit{{1e9}, Time::from_seconds(20e-6)};
  const ExecutionResult far = execute(e, {false, false, true});
  expect_close(far.parameters, near.parameters);
  EXPECT_EQ(near.sent_between_nodes > 0, s.nodes > 1) << "with a rate limit or without";
  EXPECT_GT(far.sent_between_nodes, 0);
}

/// Gradients that are integers add up exactly, whatever the split and the order.
TEST_P(Splits, SumIntegersExactly) {
  const SplitCase& s = GetParam();
  const ResolvedScheme scheme = resolve_scheme(s.scheme, Place{});
  Execution e = split_execution(s, scheme);
  e.job.optimizer = &optimizer("sgd");
  e.integer_gradients = true;
  e.iterations = 5;
  const int64_t steps = (5 - s.late) * micro_batches(make_program(e));
  const ExecutionResult r = execute(e, {false, false, true});
  for (std::size_t i = 0; i < r.parameters.size(); ++i) {
    int64_t sum = 0;
    for (uint32_t w = 0; w < s.replicas; ++w) {
      for (uint32_t t = 0; t < steps; ++t) sum += integer_gradient(w, t, static_cast<int64_t>(i));
    }
    ASSERT_EQ(static_cast<double>(r.parameters[i]) * static_cast<double>(s.apart), static_cast<double>(-sum))
        << "element " << i;
  }
}

/// Both engines run every op of every role once an iteration, after those it waits for, and move its bytes.
void expect_same_ops(const SplitCase& s) {
  const ResolvedScheme scheme = resolve_scheme(s.scheme, Place{});
  Execution e = split_execution(s, scheme);
  e.iterations = 4;
  const Program p = make_program(e);
  const ExecutionResult r = execute(e, {false, true, false});
  std::map<std::tuple<uint32_t, uint32_t, uint32_t, uint32_t>, Span> at;
  for (const Span& x : r.spans) {
    if (x.iteration >= 4) continue;  // input that was loaded ahead
    EXPECT_TRUE(at.emplace(std::make_tuple(x.role, x.instance, x.iteration, x.op), x).second);
  }
  int64_t expected = 0;
  for (const Role& role : p.roles) {
    for (const Op& op : role.ops) expected += op.times(4) * role.mesh.size();
  }
  EXPECT_EQ(static_cast<int64_t>(at.size()), expected);
  for (const auto& [key, span] : at) {
    const auto [role, instance, iteration, op] = key;
    for (const Dep& d : p.roles[role].ops[op].deps) {
      if (d.lag > iteration) continue;
      const auto before = at.find({role, instance, iteration - d.lag, d.op});
      if (before == at.end()) continue;  // it does not run in that iteration
      EXPECT_GE(span.start, before->second.end);
    }
  }
  for (const OpTime& t : r.ops) {
    const Op& op = p.roles[t.role].ops[t.op];
    const bool moves = op.kind == OpKind::collective || op.kind == OpKind::send || op.lane == Lane::offload ||
                       op.lane == Lane::reload;
    EXPECT_EQ(t.collective_bytes + t.sent_bytes, moves ? op.bytes.n : 0) << p.labels[op.label];
  }
  static const System box = System::load("dgx1-v100"), pairs = System::load("5090-2x", {{"nodes", "4"}});
  Request q;
  q.job = e.job;
  q.job.input = q.job.loading.decoded = e.data != nullptr;
  q.system = s.nodes > 1 ? &pairs : &box;
  q.devices = s.devices;
  q.iterations = 4;
  const bool timed = gathers(scheme.overheads) || by_need(scheme);  // buckets or order follow from times
  EXPECT_EQ(fingerprint(timed ? compile(q.job, e.cluster) : *make_plan(q).program), fingerprint(p));
  EXPECT_EQ(simulate(q).setup.samples_per_iteration, r.report.setup.samples_per_iteration);
}

TEST_P(Splits, RunTheSameOpsInBothEngines) { expect_same_ops(GetParam()); }

/// With density=1 nothing is left out; these leave something out.
TEST(CompressedSplits, RunTheSameOpsInBothEngines) {
  for (const char* how : {"int8", "topk,density=0.1", "powersgd,rank=1", "powersgd,error-feedback=off"}) {
    const std::string text = fmt::format("microbatches=2,bucket=1KiB,compression={}", how);
    expect_same_ops({"hybrid:pipeline=2," + text, 4, 2});
    expect_same_ops({"hybrid:tensor=2,pipeline=2,schedule=interleaved," + text, 8, 2, Of::text});
  }
}

INSTANTIATE_TEST_SUITE_P(All, Splits, testing::ValuesIn(splits()));

/// Each worker with its samples, its own optimiser and all averages as if it were one device.
TEST(WorkersOfSeveralDevices, TrainAsWorkersOfOneDeviceDo) {
  const std::string outers[] = {"diloco:every=3,workers=2,", "bmuf:every=2,workers=2,",
                                "diloco:every=4,outer=momentum,outer-rate=0.8,workers=2,",
                                "local-sgd:every=3,workers=2,",
                                "parameter-averaging:every=2,state=params+optimizer,workers=2,"};
  const SplitCase insides[] = {{"pipeline=2,microbatches=1", 4},
                               {"tensor=2", 4, 1, Of::text},
                               {"sharding=1", 4, 2},
                               {"sharding=3,worker=node", 4, 2, Of::images, 2},
                               {"pipeline=2,microbatches=1,sharding=2", 8, 2}};
  for (const std::string& outer : outers) {
    for (const SplitCase& inside : insides) {
      SCOPED_TRACE(outer + inside.scheme);
      SplitCase s = inside, plain{outer, 2, 2, inside.of};
      s.scheme = outer + inside.scheme;
      s.apart = 2;
      expect_same_ops(s);
      const ResolvedScheme several = resolve_scheme(s.scheme, Place{}),
                           single = resolve_scheme(plain.scheme.substr(0, outer.size() - 1), Place{});
      Execution one = split_execution(plain, single);
      one.job.batch = 2 * inside.replicas;
      const ExecutionResult a = execute(split_execution(s, several), {false, false, true}),
                            b = execute(one, {false, false, true});
      expect_close(a.parameters, b.parameters);
      expect_close(a.state, b.state, 2e-4F);
      expect_close(a.averaging, b.averaging, 1e-4F);
      ASSERT_EQ(a.losses.size(), b.losses.size());
      for (std::size_t i = 0; i < a.losses.size(); ++i) EXPECT_NEAR(a.losses[i], b.losses[i], 2e-5) << i;
    }
  }
}

/// What averaging keeps is laid out by the model, whoever holds which part of it.
TEST(WorkersOfSeveralDevices, GoOnFromACheckpointOfOtherWorkers) {
  const ResolvedScheme first = resolve_scheme("diloco:every=3,workers=2,pipeline=2,microbatches=1", Place{}),
                       second = resolve_scheme("diloco:every=3,workers=2,tensor=2,sharding=1", Place{}),
                       plain = resolve_scheme("diloco:every=3", Place{});
  Execution e = split_execution({"", 4}, first), whole = split_execution({"", 2}, plain);
  e.iterations = 6;  // workers are equal then, but for their momenta
  e.job.optimizer = whole.job.optimizer = &optimizer("sgd");
  whole.iterations = 12;
  const ExecutionResult half = execute(e, {false, false, true});
  const Checkpoint saved{6, half.parameters, half.state, half.buffers, half.averaging};
  Execution rest = split_execution({"", 4}, second);
  rest.job.optimizer = &optimizer("sgd");
  rest.iterations = 6;
  rest.start = &saved;
  expect_close(execute(rest, {false, false, true}).parameters,
               execute(whole, {false, false, true}).parameters);
}

TEST(WorkersOfSeveralDevices, AverageInFullPrecision) {
  const ResolvedScheme scheme =
      resolve_scheme("diloco:every=1,workers=2,pipeline=2,compression=int8", Place{});
  try {
    execute(split_execution({"", 4}, scheme));
    FAIL();
  } catch (const InputError& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("compression=none is executed"));
  }
}

/// A gather that does not run is found out.
TEST(Splitting, ReadsNoParametersThatWereNotGathered) {
  ResolvedScheme scheme = resolve_scheme("hybrid:sharding=3", Place{});
  static const Scheme* const hybrid = scheme.scheme;
  Scheme lazy = *hybrid;
  lazy.compile = [](const Workload& work, const Cluster& cluster, const Options& options) {
    Program p = hybrid->compile(work, cluster, options);
    for (Op& op : p.roles[0].ops) {
      if (op.payload == Payload::parameters && op.kind == OpKind::collective && op.key == 0) op.every = 1000;
    }
    return p;
  };
  scheme.scheme = &lazy;
  const ExecutionResult r = execute(split_execution({"", 2, 2}, scheme), {false, false, true});
  EXPECT_TRUE(std::any_of(r.parameters.begin(), r.parameters.end(), [](float x) { return std::isnan(x); }));
}

/// Start values of the mixture of experts, with a bias that sends all tokens to the first two experts: those
/// of the last two come to nothing.
Checkpoint crowded() {
  const ResolvedScheme scheme = resolve_scheme("allreduce", Place{});
  Execution e = split_execution({"", 1, 1, Of::experts}, scheme);
  e.iterations = 1;
  e.warmup = 0;
  const ExecutionResult r = execute(e, {false, false, true});
  Checkpoint out{0, r.parameters, std::vector<float>(r.state.size()), r.buffers};
  const ExecutionGraph whole(model_of(Of::experts), 2);
  for (const LearnedTensor& l : whole.learned()) {
    if (model_of(Of::experts).layers()[l.layer].parameters[l.index].name != "router_bias") continue;
    const int64_t at = whole.tensors()[l.parameter].offset;
    for (const int64_t expert : {0, 1}) out.parameters[static_cast<std::size_t>(at + expert)] = 20;
  }
  return out;
}

TEST(SplitExperts, TakeAllTokensOrNone) {
  const Checkpoint start = crowded();
  for (const SplitCase& s : {SplitCase{"hybrid:expert=2,microbatches=2", 2, 2, Of::experts},
                             SplitCase{"hybrid:expert=4", 4, 4, Of::experts}}) {
    const ResolvedScheme scheme = resolve_scheme(s.scheme, Place{}),
                         one = resolve_scheme("allreduce", Place{});
    Execution e = split_execution(s, scheme), whole = split_execution({"", 1, 1, Of::experts}, one);
    whole.job.batch = 2 * micro_batches(make_program(e)) * s.replicas;
    e.start = whole.start = &start;
    const ExecutionResult r = execute(e, {false, false, true}), w = execute(whole, {false, false, true});
    expect_close(r.parameters, w.parameters);
    e.cluster = {s.devices, 2, s.devices / 2};
    e.rate_limit = RateLimit{{1e9}, Time::from_seconds(20e-6)};
    expect_close(execute(e, {false, false, true}).parameters, w.parameters);
  }
}

std::vector<float> trained(const std::string& text, int64_t devices, int64_t batch = 2) {
  const ResolvedScheme scheme = resolve_scheme(text, Place{});
  Execution e = split_execution({text, devices, devices, Of::experts}, scheme);
  e.job.batch = batch;
  return execute(e, {false, false, true}).parameters;
}

/// Each device's tokens of a micro-batch have places of their own at every expert: dealt experts drop what
/// whole ones on each device drop. With places for all (count / active times the even share) none is dropped.
TEST(SplitExperts, DropTheSameTokensWhereverTheyAre) {
  const std::vector<float> none = trained("hybrid:data=2,microbatches=2", 2),
                           whole = trained("hybrid:data=2,microbatches=2,capacity=0.6", 2),
                           dealt = trained("hybrid:expert=2,microbatches=2,capacity=0.6", 2),
                           shared = trained("hybrid:expert=2,tensor=2,microbatches=2,capacity=0.6", 4),
                           staged = trained("hybrid:expert=2,pipeline=2,microbatches=2,capacity=0.6", 4);
  expect_close(dealt, whole);
  expect_close(shared, whole);
  expect_close(staged, whole);
  float most = 0;
  for (std::size_t i = 0; i < none.size(); ++i) most = std::max(most, std::abs(none[i] - whole[i]));
  EXPECT_GT(most, 1e-3F) << "nothing was dropped";
  expect_close(trained("hybrid:expert=2,microbatches=2,capacity=2", 2), none);
  expect_close(trained("hybrid:capacity=2,microbatches=1", 1, 8), trained("allreduce", 1, 8));
}

/// Order and messages are real where nothing is computed: its experts get as many tokens each.
TEST(SplitExperts, AreDealtTokensByADeviceThatComputesNothing) {
  const SplitCase s{"hybrid:expert=2,pipeline=2,microbatches=2,capacity=1.5", 4, 2, Of::experts};
  for (const std::string& text : {s.scheme, std::string("hybrid:expert=4,microbatches=2")}) {
    const ResolvedScheme scheme = resolve_scheme(text, Place{});
    for (const std::size_t backend : {0, 2}) {
      Execution e = split_execution(s, scheme);
      e.backend = &backends()[backend];
      e.iterations = 3;
      e.cluster = {4, 2, 2};
      e.rate_limit = RateLimit{{1e9}, Time::from_seconds(20e-6)};
      const Program p = make_program(e);
      for (const OpTime& t : execute(e).ops) {
        const Op& op = p.roles[t.role].ops[t.op];
        if (op.payload != Payload::exchanged) continue;
        EXPECT_EQ(t.collective_bytes, op.bytes.n) << p.labels[op.label];
      }
    }
  }
}

TEST(SplitExperts, AreRefusedWhereTheyAreOnlySimulated) {
  const auto says = [](const SplitCase& s, const char* why) {
    const ResolvedScheme scheme = resolve_scheme(s.scheme, Place{});
    try {
      execute(split_execution(s, scheme));
      FAIL() << s;
    } catch (const InputError& e) {
      EXPECT_THAT(e.what(), testing::HasSubstr(why)) << s;
    }
  };
  says({"tensor-parallel", 2, 1, Of::stored}, "stored in fewer bits");
}

/// Checkpoints hold the whole model: what one split saved another goes on with.
TEST(SplitCheckpoints, ResumeUnderAnotherSplit) {
  const ResolvedScheme first = resolve_scheme("hybrid:tensor=2,pipeline=2,microbatches=4", Place{}),
                       second = resolve_scheme("pipeline:microbatches=4", Place{});
  Execution e = split_execution({"", 4}, first);
  e.iterations = 5;
  const ExecutionResult half = execute(e, {false, false, true});
  const Checkpoint saved{5, half.parameters, half.state, half.buffers};
  Execution rest = split_execution({"", 2}, second);
  rest.iterations = 5;
  rest.start = &saved;
  const ExecutionResult r = execute(rest, {false, false, true});
  expect_close(r.parameters, on_one_worker({"", 4}, 4).parameters);
}

TEST(SplitCheckpoints, ResumeWithExpertsDealtOtherwise) {
  const ResolvedScheme first = resolve_scheme("hybrid:expert=2,tensor=2,microbatches=2", Place{}),
                       second = resolve_scheme("hybrid:expert=4,sharding=1", Place{});
  Execution e = split_execution({"", 4, 2, Of::experts}, first);
  e.iterations = 5;
  const ExecutionResult half = execute(e, {false, false, true});
  const Checkpoint saved{5, half.parameters, half.state, half.buffers};
  Execution rest = split_execution({"", 4, 4, Of::experts}, second);
  rest.iterations = 5;
  rest.start = &saved;
  const ExecutionResult r = execute(rest, {false, false, true});
  expect_close(r.parameters, on_one_worker({"", 4, 4, Of::experts}, 1).parameters);
}

/// Shares of parameters, and sequences in parts, are the business of one split.
TEST(SplitCheckpoints, ResumeWithoutSharding) {
  const ResolvedScheme first =
                           resolve_scheme("hybrid:tensor=2,sequence=on,microbatches=2,sharding=3", Place{}),
                       second = resolve_scheme("hybrid:pipeline=2,microbatches=2", Place{});
  const SplitCase s{"", 4, 2, Of::text};
  Execution e = split_execution(s, first);
  e.iterations = 5;
  const ExecutionResult half = execute(e, {false, false, true});
  const Checkpoint saved{5, half.parameters, half.state, half.buffers};
  Execution rest = split_execution(s, second);
  rest.iterations = 5;
  rest.start = &saved;
  expect_close(execute(rest, {false, false, true}).parameters, on_one_worker(s, 2).parameters);
}

/// The copy of a tied weight is no parameter of its own.
TEST(SplitCheckpoints, HoldATiedWeightOnce) {
  const ResolvedScheme first = resolve_scheme("hybrid:tensor=2,pipeline=2,microbatches=4", Place{}),
                       second = resolve_scheme("pipeline:microbatches=4", Place{});
  Execution e = split_execution({"", 4, 1, Of::text}, first);
  e.iterations = 5;
  const ExecutionResult half = execute(e, {false, false, true});
  EXPECT_EQ(static_cast<int64_t>(half.parameters.size()), model_of(Of::text).parameter_elements());
  const Checkpoint saved{5, half.parameters, half.state, half.buffers};
  Execution rest = split_execution({"", 2, 1, Of::text}, second);
  rest.iterations = 5;
  rest.start = &saved;
  const ExecutionResult r = execute(rest, {false, false, true});
  expect_close(r.parameters, on_one_worker({"", 4, 1, Of::text}, 4).parameters);
}

}  // namespace
}  // namespace tandem::tests
