// SPDX-License-Identifier: Apache-2.0
// One row a role: what is taken from an earlier call of a routine is what the call would have given.
#include <gtest/gtest.h>

#include <map>

#include "base/random.h"
#include "sim/evaluate/fold.h"
#include "sim/evaluate/sweep.h"
#include "tests/sim/prediction.h"

namespace tandem::tests {
namespace {

enum class Host : uint8_t { free, quick, slow, awaiting };

/// Every task, collective and message takes a time of its own, the same in each call.
class DrawnPlan {
 public:
  DrawnPlan(std::shared_ptr<const Program> program, uint64_t seed, Host host)
      : program_(std::move(program)), seed_(seed), host_(host) {}

  BoundProgram make() {
    plan_.program = program_;
    for (const Role& role : program_->roles) plan_.roles.push_back(costs(role));
    return plan_;
  }

 private:
  int64_t draw(uint64_t what, int64_t most) const {
    return static_cast<int64_t>(draw_bits(seed_, what) % static_cast<uint64_t>(most));
  }

  int32_t transfer(const Op& op) {
    const auto key = std::make_tuple(static_cast<int>(op.kind), op.what, op.bytes.n);
    const auto [at, fresh] = known_.emplace(key, static_cast<int32_t>(plan_.transfers.size()));
    if (fresh) {
      Transfer t;
      t.latency = Time{draw(1000 + plan_.transfers.size(), 3'000'000)};
      t.bytes = static_cast<double>(op.bytes.n);
      t.cap = 1e9;
      plan_.transfers.push_back(t);
    }
    return at->second;
  }

  RoleCosts costs(const Role& role) {
    RoleCosts costs;
    std::vector<Time> duration, issued;
    std::vector<int32_t> transfers;
    Time sum;
    for (const Op& op : role.ops) {
      const bool computes = op.kind == OpKind::compute;
      duration.push_back(Time{computes ? draw(op.what, 10'000'000) : 0});
      transfers.push_back(has_transfer(op) ? transfer(op) : -1);
      if (computes) sum += Time{draw(5000 + op.what, host_ == Host::slow ? 12'000'000 : 4'000'000)};
      issued.push_back(sum);
    }
    costs.duration = {std::move(duration)};
    costs.transfer = {std::move(transfers)};
    if (host_ == Host::free) return costs;
    costs.issued = {std::move(issued)};
    costs.issue = {sum};
    costs.awaits_messages = host_ == Host::awaiting;
    return costs;
  }

  std::shared_ptr<const Program> program_;
  uint64_t seed_;
  Host host_;
  BoundProgram plan_;
  std::map<std::tuple<int, uint32_t, int64_t>, int32_t> known_;
};

const Graph& small_gpt() {
  static const Graph graph = Graph::load("gpt2:layers=8,hidden=64,heads=8,sequence=32,vocabulary=256");
  return graph;
}

std::shared_ptr<const Program> compiled(const std::string& text, int64_t devices, bool input) {
  const ResolvedScheme scheme = resolve_scheme(text, {});
  const Workload work = make_workload(small_gpt(), 4, Precision::fp32, optimizer("momentum"), input);
  return std::make_shared<const Program>(scheme.scheme->compile(work, {devices, 1, devices}, scheme.options));
}

void expect_same_sums(const Trace& a, const Trace& b) {
  EXPECT_EQ(a.makespan, b.makespan);
  EXPECT_EQ(a.iteration_end, b.iteration_end);
  for (int lane = 0; lane < kLanes; ++lane) EXPECT_EQ(a.busy[lane], b.busy[lane]) << lane;
  for (int wait = 0; wait < kWaits; ++wait) EXPECT_EQ(a.exposed[wait], b.exposed[wait]) << wait;
  for (int move = 0; move < kMoves; ++move) EXPECT_EQ(a.moved[move], b.moved[move]) << move;
  EXPECT_EQ(a.awaited, b.awaited);
  EXPECT_EQ(a.link_bytes, b.link_bytes);
  EXPECT_EQ(a.events, b.events);
}

constexpr std::pair<const char*, int64_t> kSplits[] = {
    {"pipeline:microbatches=16", 4},
    {"tensor-parallel:microbatches=6,sequence=on", 4},
    {"hybrid:tensor=2,pipeline=4,microbatches=24,schedule=gpipe", 16},
    {"hybrid:tensor=2,pipeline=4,microbatches=24,sharding=1", 16},
    {"hybrid:tensor=2,pipeline=2,schedule=interleaved,microbatches=12,sharding=2,bucket=64KiB", 8},
    {"hybrid:tensor=2,pipeline=2,schedule=zero-bubble,microbatches=12,sequence=on", 8},
    {"hybrid:tensor=2,pipeline=2,microbatches=8,sharding=3", 8},
    {"hybrid:pipeline=2,context=4,microbatches=8,sharding=1", 8},
};

// Asked for a fingerprint, the evaluator runs every op; otherwise it repeats what calls did.
TEST(Folded, RepeatedCallsGiveWhatTheirOpsGive) {
  uint64_t seed = 0;
  for (const auto& [text, devices] : kSplits) {
    for (const Host host : {Host::free, Host::quick, Host::slow, Host::awaiting}) {
      for (const double noise : {0.0, 0.02}) {
        SCOPED_TRACE(fmt::format("{}, host {}, noise {}", text, static_cast<int>(host), noise));
        ++seed;
        BoundProgram plan = DrawnPlan(compiled(text, devices, seed % 2 == 0), seed, host).make();
        plan.seed = seed;
        plan.disturbance.iteration_sigma = noise;
        EvaluateOptions options{.iterations = 4, .kept_iterations = 0, .fingerprint = true};
        const Trace every = run_folded(plan, options);
        options.fingerprint = false;
        expect_same_sums(run_folded(plan, options), every);
      }
    }
  }
}

// And that is what a row for every device gives.
TEST(Folded, EqualsTheSweepOverAllRows) {
  uint64_t seed = 100;
  for (const auto& [text, devices] : kSplits) {
    for (const Host host : {Host::free, Host::slow, Host::awaiting}) {
      SCOPED_TRACE(fmt::format("{}, host {}", text, static_cast<int>(host)));
      const BoundProgram plan = DrawnPlan(compiled(text, devices, true), ++seed, host).make();
      ASSERT_EQ(what_differs(plan), "");
      EvaluateOptions options{.iterations = 3, .kept_iterations = 1, .kept_instances = 1};
      const Trace rows = run_sweep(plan, options), one = run_folded(plan, options);
      EXPECT_EQ(rows.fingerprint, one.fingerprint);
      EXPECT_EQ(rows.spans, one.spans);
      options.fingerprint = false;
      options.kept_iterations = 0;
      expect_same_sums(run_folded(plan, options), rows);
    }
  }
}

// A call whose work takes longer than that of its fellows is no repetition of theirs.
TEST(Folded, CallsThatCostMoreAreTheirOwn) {
  const auto program = compiled("pipeline:microbatches=12", 2, false);
  BoundProgram plan = DrawnPlan(program, 7, Host::free).make();
  EvaluateOptions options{.iterations = 2, .kept_iterations = 0, .fingerprint = false};
  const Time before = run_folded(plan, options).makespan;
  const OpList& ops = program->roles[1].ops;
  uint32_t calls = 0;
  for (const OpList::Part& part : ops.parts()) {
    if (part.routine < 0 || ++calls != 9) continue;
    plan.roles[1].duration[0][part.first] += Time{50'000'000};
  }
  ASSERT_GE(calls, 9U);
  const Trace slower = run_folded(plan, options);
  EXPECT_GT(slower.makespan, before);
  options.fingerprint = true;
  expect_same_sums(slower, run_folded(plan, options));
}

}  // namespace
}  // namespace tandem::tests
