// The cross-engine ladder: the same Program in the simulator and on real threads (semantics.md is what both
// obey).
#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "exec/execute.h"
#include "sim/evaluate.h"
#include "sim/placement.h"
#include "sim/simulate.h"
#include "tests/exec/deferred.h"
#include "topologies/system.h"

namespace tandem {
namespace {

struct Setting {
  std::string scheme;
  Cluster cluster;
};

std::ostream& operator<<(std::ostream& out, const Setting& s) {
  return out << s.scheme << " on " << s.cluster.devices;
}

/// Every scheme that can be executed, in every mode, on one and on two nodes.
std::vector<Setting> settings() {
  const Cluster one{1, 1, 1}, two{2, 1, 2}, three{3, 1, 3}, four{4, 1, 4}, grid{4, 2, 2};
  return {
      {"allreduce", one},
      {"allreduce:bucket=0B", two},
      {"allreduce:bucket=4KiB,algorithm=ring", three},
      {"allreduce:algorithm=tree,overlap=off", four},
      {"allreduce:algorithm=double-tree,bucket=1KiB", four},
      {"allreduce:algorithm=halving-doubling", three},
      {"allreduce:algorithm=hierarchical,bucket=1KiB", grid},
      {"allreduce:algorithm=central", three},
      {"allreduce:accumulate=3,bucket=1KiB", two},
      {"parameter-server", two},
      {"parameter-server:bucket=1KiB,shards=3", three},
      {"parameter-server:overlap=off", four},
      {"parameter-server:server=gpu", three},
      {"parameter-server:server=gpu,shards=2", four},
      {"parameter-server:push=node,server=nodes", grid},
      {"parameter-server:mode=async", four},
      {"parameter-server:mode=async,overlap=off,shards=2", two},
      {"parameter-server:mode=async,push=node,bucket=1KiB", grid},
      {"parameter-server:mode=ssp,slack=1,overlap=off", three},
      {"parameter-server:mode=ssp,slack=0", two},
      {"parameter-server:mode=softsync,n=2,overlap=off", four},
      {"parameter-server:mode=backup,backup=1,overlap=off", four},
      {"parameter-averaging:every=3", two},
      {"parameter-averaging:every=2,state=params+optimizer,through=allreduce", four},
      {"local-sgd:every=4", two},
      {"data-parallel-master", two},
      {"zero", two},
      {"zero:stage=1,accumulate=3,overlap=off,bucket=1KiB", four},
      {"zero:stage=2,bucket=0B", three},
      {"zero:stage=3,bucket=1KiB", grid},
      {"zero:stage=3,bucket=0B", three},
      {"zero:stage=3,overlap=off", two},
  };
}

const Graph& model() {
  static const Graph graph = Graph::load(std::string(TANDEM_ROOT) + "/tests/cross/tiny.json");
  return graph;
}

Execution execution(const Setting& s, const ResolvedScheme& scheme, std::string_view backend,
                    int32_t iterations) {
  Execution e;
  e.graph = &model();
  e.scheme = &scheme;
  e.backend = &backends_registry().at(backend);
  e.cluster = s.cluster;
  e.batch = 4;
  e.optimizer = &optimizer("sgd");
  e.iterations = iterations;
  e.warmup = 1;
  return e;
}

constexpr char kNull[] = "null", kCpu[] = "cpu";

/// Backends of this build that need no device, and the same behind asynchronous queues.
const std::vector<Backend>& backends() {
  static const std::vector<Backend> all = [] {
    std::vector<Backend> list = {backends_registry().at("null"), backends_registry().at("cpu"),
                                 deferred<kNull>(), deferred<kCpu>()};
    list[2].name = "deferred null";
    list[3].name = "deferred cpu";
    return list;
  }();
  return all;
}

class Ladder : public testing::TestWithParam<Setting> {};

Program compiled(const Setting& s, const ResolvedScheme& scheme) {
  const Workload work{&model(), model().lower(4, Precision::fp32), 4, Precision::fp32, &optimizer("sgd"),
                      false};
  return scheme.scheme->compile(work, s.cluster, scheme.options);
}

bool exchanges(const Program& p, Lane lane) {
  return std::any_of(p.roles[0].ops.begin(), p.roles[0].ops.end(), [&](const Op& op) {
    return op.lane == lane && (op.kind == OpKind::send || op.kind == OpKind::recv);
  });
}

TEST_P(Ladder, TraceSatisfiesTheProgram) {
  const Setting& s = GetParam();
  const ResolvedScheme scheme = resolve_scheme(s.scheme, {});
  const Program p = compiled(s, scheme);
  constexpr int32_t kIterations = 8;
  const auto& ops = p.roles[0].ops;
  for (const std::size_t backend : {0, 2}) {
    SCOPED_TRACE(backends()[backend].name);
    Execution e = execution(s, scheme, "null", kIterations);
    e.backend = &backends()[backend];
    const ExecutionResult r = execute(e, {false, true, false});
    // The clocks of devices and host agree only as far as the host's readings around an event are apart.
    const auto host = [&](uint32_t op) { return e.backend->asynchronous && exchanges(p, ops[op].lane); };
    std::map<std::tuple<uint32_t, uint32_t, uint32_t>, Span> at;  // instance, iteration, op
    for (const Span& span : r.spans) {
      EXPECT_LE(span.start, span.end);
      EXPECT_TRUE(at.emplace(std::make_tuple(span.instance, span.iteration, span.op), span).second);
    }
    int64_t expected = 0;
    for (const Op& op : ops) expected += kIterations / op.every;
    EXPECT_EQ(static_cast<int64_t>(at.size()), expected * s.cluster.devices);
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

/// Gradients are integers that depend on (worker, iteration, element) only: what reaches the parameters is
/// their exact sum, in whatever order they arrived.
TEST_P(Ladder, IntegerSumsAreExact) {
  const Setting& s = GetParam();
  const ResolvedScheme scheme = resolve_scheme(s.scheme, {});
  for (std::size_t k = 0; k < backends().size() + 2; ++k) {
    // The last two with a node for each worker, as far as they are not on nodes yet, and messages over TCP.
    const bool linked = k >= backends().size();
    if (linked && (s.cluster.devices == 1 || s.scheme == "data-parallel-master")) continue;
    const Backend& backend = backends()[linked ? 1 + 2 * (k - backends().size()) : k];
    constexpr int32_t kIterations = 12;
    Execution e = execution(s, scheme, "cpu", kIterations);
    if (linked) e.pace = Pace{{1e9}, Time::from_seconds(20e-6)};
    if (linked && s.cluster.nodes == 1) e.cluster = {s.cluster.devices, s.cluster.devices, 1};
    e.backend = &backend;
    e.integer_gradients = true;
    const ExecutionResult r = execute(e, {false, false, true});
    const bool averages =
        s.scheme.find("averaging") != std::string::npos || s.scheme.starts_with("local-sgd");
    // One synchronous shard on every device updates in front of the next forward: the last sum is not used.
    const bool lags = s.scheme == "parameter-server:server=gpu";
    const int64_t micro = s.scheme.find("accumulate=3") != std::string::npos ? 3 : 1;
    const auto elements = static_cast<int64_t>(r.parameters.size());
    ASSERT_EQ(elements, model().parameter_elements());
    if (r.dropped > 0) continue;  // which gradients were dropped is a matter of timing
    for (int64_t i = 0; i < elements; ++i) {
      double sum = 0;
      for (int32_t t = 0; t < kIterations - (lags ? 1 : 0); ++t) {
        for (uint32_t w = 0; w < s.cluster.devices; ++w)
          sum += integer_gradient(w, static_cast<uint32_t>(t), i);
      }
      sum *= static_cast<double>(micro);
      if (averages) sum /= static_cast<double>(s.cluster.devices);
      ASSERT_EQ(static_cast<double>(r.parameters[static_cast<std::size_t>(i)]), -sum)
          << backend.name << (linked ? " over links" : "") << " element " << i;
    }
  }
}

TEST_P(Ladder, CountsEqualTheSimulators) {
  const Setting& s = GetParam();
  const ResolvedScheme scheme = resolve_scheme(s.scheme, {});
  constexpr int32_t kIterations = 20;
  const ExecutionResult r = execute(execution(s, scheme, "null", kIterations));
  const System system = System::load("p3.8xlarge");
  if (s.cluster.nodes > 1) return;  // the simulated box has one node
  Prediction p;
  p.graph = &model();
  p.system = &system;
  p.scheme = &scheme;
  p.devices = s.cluster.devices;
  p.batch = 4;
  p.optimizer = &optimizer("sgd");
  p.input = false;
  p.disturbance = Disturbance{};
  p.iterations = kIterations;
  const Plan plan = make_plan(p);
  EvaluateOptions options;
  options.iterations = kIterations;
  const Trace trace = run_events(plan, options);
  EXPECT_EQ(r.report.staleness.count() + r.dropped, trace.staleness.count() + trace.dropped)
      << "gradients that arrived";
  if (r.dropped == 0 && trace.dropped == 0) {
    EXPECT_EQ(r.versions, trace.versions);
  }
  if (s.scheme.find("mode=") == std::string::npos) {
    EXPECT_EQ(r.report.staleness.max(), 0);
  }
  const auto& store = plan.program->stores;
  if (s.scheme.find("mode=ssp") != std::string::npos) {
    // Nobody runs more than slack + 1 iterations ahead, so nothing is staler than what the others did in
    // them.
    EXPECT_LE(r.report.staleness.max(), (2 * store[0].slack + 2) * (s.cluster.devices - 1));
  }
}

INSTANTIATE_TEST_SUITE_P(Schemes, Ladder, testing::ValuesIn(settings()));

TEST(Ladder, CoversEveryScheme) {
  for (const Scheme& scheme : sync_registry().all()) {
    if (scheme.name == "one-weird-trick") continue;  // refused, see below
    const auto all = settings();
    EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](const Setting& s) {
      return s.scheme == scheme.name || s.scheme.starts_with(std::string(scheme.name) + ":");
    })) << scheme.name;
  }
}

TEST(Execute, RefusesWhatIsOnlySimulated) {
  for (const char* text : {"one-weird-trick", "allreduce:compression=fp16", "allreduce:gradients=fp16"}) {
    const ResolvedScheme scheme = resolve_scheme(text, {});
    EXPECT_THROW(execute(execution({text, {2, 1, 2}}, scheme, "null", 2)), InputError) << text;
  }
}

/// N workers that sum their gradients compute what one computes on the N-fold batch.
TEST(Execute, SynchronousWorkersEqualOneWithTheWholeBatch) {
  for (const char* text : {"allreduce", "parameter-server", "parameter-server:server=gpu,shards=1", "zero",
                           "zero:stage=3,bucket=1KiB"}) {
    const ResolvedScheme many = resolve_scheme(text, {}), one = resolve_scheme("allreduce", {});
    Execution a = execution({text, {2, 1, 2}}, many, "cpu", 5),
              b = execution({text, {1, 1, 1}}, one, "cpu", 5);
    static const Dataset data = load_dataset(std::string(TANDEM_ROOT) + "/tests/cross/points.csv", false);
    a.data = b.data = &data;
    b.batch = 2 * a.batch;
    a.rate.base = b.rate.base = 0.1;
    const auto x = execute(a, {false, false, true}).parameters,
               y = execute(b, {false, false, true}).parameters;
    ASSERT_EQ(x.size(), y.size());
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], 1e-5) << text << " " << i;
  }
}

/// Where the pull follows the push, W - 1 others are merged in between whatever the speeds (edges aside).
TEST(Execute, AsynchronousStalenessIsWorkersLessOne) {
  for (const int64_t workers : {2, 4}) {
    const Setting s{"parameter-server:mode=async,overlap=off", {workers, 1, workers}};
    const ResolvedScheme scheme = resolve_scheme(s.scheme, {});
    const ExecutionResult r = execute(execution(s, scheme, "cpu", 400));
    EXPECT_EQ(r.report.staleness.count(), 400 * workers);
    // The first and last workers run alone for a while at either end.
    EXPECT_LE(r.report.staleness.mean(), static_cast<double>(workers - 1));
  }
}

}  // namespace
}  // namespace tandem
