// SPDX-License-Identifier: Apache-2.0
// The cross-engine ladder: the same Program in the simulator and on real threads (semantics.md is what both
// obey).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "exec/execute.h"
#include "sim/bind/gather.h"
#include "sim/bound/placement.h"
#include "sim/evaluate/events.h"
#include "tests/cross/settings.h"

namespace tandem::tests {
namespace {

/// The schemes that cannot be spread over nodes.
const std::set<std::string_view> kOneProcess = {"data-parallel-master", "hogwild"};

/// No layer of the tiny model splits: split_test.cpp has these.
const std::set<std::string_view> kSplitting = {"hybrid",   "pipeline",   "layer-split",    "tensor-parallel",
                                               "megatron", "torchtitan", "one-weird-trick"};

class Ladder : public testing::TestWithParam<Setting> {};

/// The host takes part: the asynchronous backends here have no library that sums on the device.
bool exchanges(const Program& p, Lane lane) {
  return std::any_of(p.roles[0].ops.begin(), p.roles[0].ops.end(), [&](const Op& op) {
    return op.lane == lane && (op.kind == OpKind::send || op.kind == OpKind::recv ||
                               op.kind == OpKind::collective || lane == Lane::host);
  });
}

TEST_P(Ladder, TraceSatisfiesTheProgram) {
  const Setting& s = GetParam();
  const ResolvedScheme scheme = resolve_scheme(s.scheme, {});
  constexpr int32_t kIterations = 8;
  for (const std::size_t backend : {0, 2}) {
    SCOPED_TRACE(backends()[backend].name);
    Execution e = execution(s, scheme, "null", kIterations);
    e.backend = &backends()[backend];
    const Program p = make_program(e);
    const auto& ops = p.roles[0].ops;
    const ExecutionResult r = execute(e, {false, true, false});
    // The clocks of devices and host agree only as far as the host's readings around an event are apart.
    const auto host = [&](uint32_t op) { return e.backend->asynchronous && exchanges(p, ops[op].lane); };
    std::map<std::tuple<uint32_t, uint32_t, uint32_t>, Span> at;  // instance, iteration, op
    for (const Span& span : r.spans) {
      EXPECT_LE(span.start, span.end);
      EXPECT_TRUE(at.emplace(std::make_tuple(span.instance, span.iteration, span.op), span).second);
    }
    int64_t expected = 0;
    for (const int32_t made : r.worker_iterations) {
      for (const Op& op : ops) expected += op.times(made);
    }
    EXPECT_EQ(static_cast<int64_t>(at.size()), expected);
    for (const auto& [key, span] : at) {
      const auto [instance, iteration, index] = key;
      for (const Dep& d : ops[index].deps) {
        if (iteration < d.lag) continue;
        const auto before = at.find({instance, iteration - d.lag, d.op});
        if (before == at.end()) continue;  // it does not run in that iteration
        if (host(index) != host(d.op)) continue;
        EXPECT_GE(span.start, before->second.end) << "op " << index << " after " << d.op;
      }
      for (uint32_t other = 0; other < index; ++other) {  // lanes are in order
        if (ops[other].lane != ops[index].lane) continue;
        const auto before = at.find({instance, iteration, other});
        if (before == at.end()) continue;
        EXPECT_GE(span.start, before->second.end);
      }
      if (e.backend->asynchronous || ops[index].kind != OpKind::collective ||
          p.collectives[ops[index].what].axes + 1 != 1U << p.roles[0].mesh.axes.size())
        continue;
      for (uint32_t member = 0; member < s.cluster.devices; ++member)
        EXPECT_GE(span.end, at.at({member, iteration, index}).start)
            << "a collective ends when all have arrived";
    }
  }
}

TEST_P(Ladder, CountsEqualTheSimulators) {
  const Setting& s = GetParam();
  const ResolvedScheme scheme = resolve_scheme(s.scheme, {});
  constexpr int32_t kIterations = 20;
  Execution e = execution(s, scheme, "null", kIterations);
  e.warmup = 0;
  const ExecutionResult r = execute(e);
  const BoundProgram plan = make_plan(prediction(s, scheme, kIterations));
  EvaluateOptions options;
  options.iterations = kIterations * plan.program->micro_batches;
  const Trace trace = run_events(plan, options);
  EXPECT_EQ(r.report.staleness.all.count() + r.dropped, trace.staleness.count() + trace.dropped)
      << "gradients that arrived";
  const auto& stores = plan.program->stores;
  if (stores.empty() || !stores[0].drop_late) {  // else timing decides what is dropped
    EXPECT_EQ(r.dropped, 0);
    EXPECT_EQ(trace.dropped, 0);
    EXPECT_EQ(r.versions, trace.versions);
  }
  // Nobody runs more than slack + 1 iterations ahead, so nothing is staler than what the others did in them.
  if (s.facts.reads == Reads::fresh) {
    EXPECT_EQ(r.report.staleness.all.max(), 0);
  } else if (s.facts.reads == Reads::delayed) {
    for (const Histogram* h : {&r.report.staleness.all, &trace.staleness}) {
      EXPECT_EQ(h->count(), (kIterations - s.facts.late) * s.cluster.devices);
      EXPECT_EQ(h->max(), s.facts.late);
      EXPECT_EQ(h->mean(), s.facts.late);
    }
  } else if (s.facts.reads == Reads::bounded) {
    EXPECT_LE(r.report.staleness.all.max(), (2 * stores[0].slack + 2) * (s.cluster.devices - 1));
  }
}

/// A rate is samples of the program over the time of an iteration, in both engines, those left out whose
/// gradients were dropped.
TEST_P(Ladder, RatesCountTheProgramsSamples) {
  const Setting& s = GetParam();
  const ResolvedScheme scheme = resolve_scheme(s.scheme, {});
  const ExecutionResult executed = execute(execution(s, scheme, "null", 12));
  const Report predicted = simulate(prediction(s, scheme, 12));
  const Program program = make_program(execution(s, scheme, "null", 1));
  const int64_t samples = 4 * program.micro_batches * s.cluster.devices;
  EXPECT_EQ(executed.report.setup.samples_per_iteration, samples);
  EXPECT_EQ(predicted.setup.samples_per_iteration, samples);
  const auto& seconds = executed.iteration_seconds;
  const double mean =
      std::accumulate(seconds.begin(), seconds.end(), 0.0) / static_cast<double>(seconds.size());
  const auto count = static_cast<double>(samples);
  const double kept = executed.dropped == 0 ? 1
                                            : static_cast<double>(executed.updates) /
                                                  static_cast<double>(executed.updates + executed.dropped);
  EXPECT_NEAR(executed.report.rate.samples_per_second * mean, kept * count, 1e-9 * count);
  if (program.stores.empty() || !program.stores[0].drop_late) {
    EXPECT_GE(predicted.rate.samples_per_second * predicted.iteration.p95, count * (1 - 1e-6));
  }
  EXPECT_LE(predicted.rate.samples_per_second * predicted.iteration.p05, count * (1 + 1e-6));
}

/// What an op hands to its collective or sends is what the Program says, also where parameters have 2 bytes.
TEST_P(Ladder, OpsMoveTheProgramsBytes) {
  const Setting& s = GetParam();
  const ResolvedScheme scheme = resolve_scheme(s.scheme, {});
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    Execution e = execution(s, scheme, "null", 3);
    e.job.precision = precision;
    const Program p = make_program(e);
    const ExecutionResult r = execute(e);
    for (std::size_t i = 0; i < p.roles[0].ops.size(); ++i) {
      const Op& op = p.roles[0].ops[i];
      const bool moves = op.kind == OpKind::collective || op.kind == OpKind::send ||
                         op.lane == Lane::offload || op.lane == Lane::reload;
      const int64_t moved = op.kind == OpKind::send ? r.ops[i].sent_bytes : r.ops[i].collective_bytes;
      // Shares of 2-byte elements are whole words.
      EXPECT_NEAR(static_cast<double>(moved), moves ? static_cast<double>(op.bytes.n) : 0.0,
                  4.0 * static_cast<double>(s.cluster.devices))
          << name(precision) << ", " << p.labels[op.label];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Schemes, Ladder, testing::ValuesIn(settings()));

/// The same question is the same Program in both engines: every scheme and preset, every precision.
TEST(Engines, CompileEqualPrograms) {
  const System systems[] = {System::load("dgx-h100"), System::load("5090-2x", {{"nodes", "4"}})};
  const Dataset data = load_dataset(std::string(TANDEM_ROOT) + "/tests/cross/points.csv", false);
  std::size_t compared = 0;
  std::vector<std::string> left_out;
  for (const SchemeEntry& entry : list_schemes()) {
    const ResolvedScheme scheme = resolve_scheme(entry.name, {});
    if (kSplitting.count(entry.name) > 0) continue;
    if (gathers(scheme.overheads) || by_need(scheme)) {
      left_out.push_back(entry.name);
      continue;
    }
    for (const System& system : systems) {
      for (int i = 0; i < 2 * kPrecisions; ++i) {
        Setting s{entry.name, make_cluster(system, 4)};
        if (s.cluster.nodes > 1 && kOneProcess.count(scheme.scheme->name) > 0) continue;
        Execution e = execution(s, scheme, "null", 1);
        Request p = prediction(s, scheme, 1);
        p.system = &system;
        p.job.precision = e.job.precision = static_cast<Precision>(i % kPrecisions);
        p.job.input = i >= kPrecisions;
        p.job.loading.decoded = p.job.input;  // the executor's lie in memory
        e.data = p.job.input ? &data : nullptr;
        EXPECT_EQ(fingerprint(*make_plan(p).program), fingerprint(make_program(e)))
            << entry.name << " in " << name(p.job.precision) << " on " << system.name();
        ++compared;
      }
    }
  }
  EXPECT_GE(compared, 2 * 2 * kPrecisions * (sync_registry().all().size() - 1 - kSplitting.size()));
  EXPECT_THAT(left_out, testing::UnorderedElementsAre("bytescheduler", "bytescheduler-ps", "horovod",
                                                      "horovod-mlperf", "horovod-xla", "mg-wfbp", "p3"))
      << "buckets or an order that follow from predicted times, which the executor lacks";
}

TEST(Ladder, CoversEveryScheme) {
  const std::vector<Setting> all = settings();
  for (const Scheme& scheme : sync_registry().all()) {
    if (kSplitting.count(scheme.name) > 0) continue;
    EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](const Setting& s) {
      return s.scheme == scheme.name || s.scheme.starts_with(std::string(scheme.name) + ":");
    })) << scheme.name;
  }
}

TEST(Execute, RefusesWhatIsOnlySimulated) {
  // In fp16 gradients carry the loss's scale, on which those with a share each need not agree.
  for (const auto& [text, precision] : std::initializer_list<std::pair<const char*, Precision>>{
           {"allreduce:gradients=fp16,cycle=1ms", Precision::fp32},
           {"zero:gradients=fp16", Precision::fp16},
           {"parameter-server:gradients=fp16", Precision::fp32},
           {"parameter-server:gradients=auto,mode=async,push=node", Precision::bf16},
           {"allreduce:gradients=fp16,priority=on,bucket=0B", Precision::fp16}}) {
    const ResolvedScheme scheme = resolve_scheme(text, {});
    try {
      Execution e = execution({std::string(text), {2, 1, 2}}, scheme, "null", 2);
      e.job.precision = precision;
      execute(e);
      FAIL() << text;
    } catch (const InputError& e) {
      EXPECT_THAT(e.what(), testing::HasSubstr("gradients"));
    }
  }
}

}  // namespace
}  // namespace tandem::tests
